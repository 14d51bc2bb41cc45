// All workloads: filters, columns and order are in the address, so that a link shows what its sender saw.

import { ago, amounts, ask, badge, h, link, names, now, span, starting } from "./dom.js";
import { get, live } from "./live.js";
import { go, query } from "./route.js";
import { virtualTable } from "./table.js";

const STATES = ["Pending", "Starting", "Running", "Held", "Unknown", "Failed", "Finished"];
const places = new Map();

const runTime = (row) => { const from = get(row, "started"); return from ? (get(row, "ended") || (get(row, "state") === "Pending" ? 0 : now())) - from : 0; };
const text = (field) => (row) => String(get(row, field) || "");

const COLUMNS = [
  { name: "name", title: "Workload", width: "minmax(12rem, 2fr)", min: 12, cell: (row) => link(href(row), get(row, "name")) },
  { name: "namespace", title: "Namespace", width: "minmax(7rem, 1fr)", min: 7, cell: text("namespace") },
  { name: "state", title: "State", width: "8rem", min: 8, cell: (row) => badge(get(row, "state")) },
  { name: "queue", title: "Queue", width: "minmax(7rem, 1fr)", min: 7, cell: text("queue") },
  { name: "cluster", title: "Cluster", width: "minmax(14rem, 1.8fr)", min: 14, cell: (row) => (get(row, "cluster") ? names([get(row, "cluster")]) : get(row, "nominated").length ? names(get(row, "nominated"), "? ") : "") },
  { name: "place", title: "Place", width: "5rem", min: 5, num: true, cell: (row) => String(places.get(get(row, "uid"))?.place || "") },
  { name: "starts", title: "Starts", width: "13rem", min: 13, cell: (row) => (get(row, "state") === "Pending" ? starting(places.get(get(row, "uid"))?.starts) : "") },
  { name: "priority", title: "Priority", width: "5.5rem", min: 5.5, num: true, cell: text("priority") },
  { name: "amounts", title: "Asks for", width: "minmax(8rem, 1.2fr)", min: 8, cell: (row) => amounts(get(row, "amounts")) },
  { name: "run", title: "Ran", width: "6rem", min: 6, num: true, cell: (row) => (runTime(row) ? span(runTime(row)) : "") },
  { name: "created", title: "Age", width: "5.5rem", min: 5.5, num: true, cell: (row) => ago(get(row, "created")) },
  { name: "reason", title: "Why", width: "minmax(16rem, 4fr)", min: 14, cell: text("reason") },
  { name: "user", title: "User", width: "8rem", min: 8, cell: text("user") },
  { name: "evictions", title: "Evictions", width: "6rem", min: 6, num: true, cell: (row) => String(get(row, "evictions") || "") },
];
const usual = () => ["name", "namespace", "state", "queue", "cluster", "place", ...(live.hello.history ? ["starts"] : []), "run", "created", "reason"];

export const href = (row) => `/workloads/${encodeURIComponent(get(row, "namespace"))}/${encodeURIComponent(get(row, "workload"))}`;

/** The rows that a query means, in its order. */
export function chosen(rows, wanted) {
  const words = (wanted.q || "").toLowerCase().split(/\s+/).filter(Boolean);
  const exact = ["namespace", "queue", "cluster", "code", "user"].filter((name) => wanted[name]);
  const states = wanted.state ? new Set(wanted.state.split(",")) : null;
  const column = live.column;
  const found = [];
  for (const row of rows) {
    if (states && !states.has(row[column.state])) continue;
    if (exact.some((name) => row[column[name]] !== wanted[name] && !(name === "cluster" && !row[column.cluster] && row[column.nominated].includes(wanted.cluster)))) continue;
    if (words.length) {
      const all = `${row[column.name]} ${row[column.namespace]} ${row[column.queue]} ${row[column.cluster]} ${row[column.workload]} ${row[column.user]} ${row[column.code]}`.toLowerCase();
      if (!words.every((word) => all.includes(word))) continue;
    }
    found.push(row);
  }
  const sorted = wanted.sort || "-created";
  const name = sorted.replace(/^-/, ""), sign = sorted[0] === "-" ? -1 : 1;
  const key = name === "run" ? runTime : name === "place" ? (row) => places.get(row[column.uid])?.place || Infinity : name === "starts" ? (row) => places.get(row[column.uid])?.starts?.[1] ?? Infinity : name === "amounts" ? (row) => row[column.amounts]["nvidia.com/gpu"] * 1e9 || row[column.amounts].cpu || 0 : (row) => row[column[name]];
  const keyed = found.map((row) => [key(row), row]);
  keyed.sort(([a, x], [b, y]) => (a < b ? -sign : a > b ? sign : x[column.uid] < y[column.uid] ? -1 : 1));
  return keyed.map(([, row]) => row);
}

export function workloadsPage(main) {
  const title = h("h1", {}, "Workloads"), count = h("span", { class: "dim", role: "status" });
  const filters = h("div", { class: "filters" });
  const columns = () => (query().columns || usual().join(",")).split(",");
  const set = (change) => go({ ...query(), ...change }, true);
  const table = virtualTable({
    label: "Workloads", columns: COLUMNS, open: (row) => row && go(href(row)),
    sort: (name) => set({ sort: (query().sort || "-created") === name ? `-${name}` : name }),
  });
  const box = h("details", { class: "cols" }, h("summary", {}, "Columns"));
  const list = h("div", {});
  box.append(list);
  main.append(h("div", { class: "head" }, title, count), filters, table.element);
  let asked = -1e9, dueAt = 0, timer = 0, lastColumns = "";

  function options(field) {
    const values = new Set();
    for (const row of live.rows.values()) if (get(row, field)) values.add(get(row, field));
    return [...values].sort().slice(0, 500);
  }

  let chooserVersion = "";
  function chooser(name, title_, values) {
    const now_ = query()[name] || "";
    const all = now_ && !values.includes(now_) ? [now_, ...values] : values;
    return h("label", {}, title_, h("select", { "data-filter": name, onchange: (event) => set({ [name]: event.target.value }) },
      h("option", { value: "" }, "all"), ...all.map((each) => h("option", { value: each, selected: each === now_ }, each))));
  }

  function drawFilters() {
    const wanted = query();
    const values = { namespace: options("namespace"), queue: options("queue"), cluster: options("cluster") };
    const version = JSON.stringify([wanted, values]);
    if (version === chooserVersion || filters.contains(document.activeElement) && document.activeElement.tagName === "SELECT" && chooserVersion) return;
    chooserVersion = version;
    const others = ["q", "code", "user"].filter((name) => wanted[name]);
    const shown = columns();
    list.replaceChildren(...COLUMNS.map((each) => h("label", {}, h("input", { type: "checkbox", checked: shown.includes(each.name), onchange: (event) => {
      const next = COLUMNS.map((c) => c.name).filter((name) => (name === each.name ? event.target.checked : columns().includes(name)));
      set({ columns: next.join(",") === usual().join(",") ? "" : next.join(",") });
    } }), each.title)));
    filters.replaceChildren(chooser("state", "State", STATES), chooser("namespace", "Namespace", values.namespace), chooser("queue", "Queue", values.queue), chooser("cluster", "Cluster", values.cluster),
      ...others.map((name) => h("button", { type: "button", onclick: () => set({ [name]: "" }), "aria-label": `Remove the filter ${name}` }, `${name === "q" ? "" : `${name}: `}${wanted[name]} ×`)),
      h("span", { class: "grow" }), box);
    document.getElementById("q").value = wanted.q || "";
  }

  function draw() {
    timer = 0; dueAt = performance.now() + (live.rows.size > 20000 ? 500 : 120);
    const began = performance.now();
    if (live.whole && asked < 0) setTimeout(askPlaces);
    const rows = chosen(live.rows.values(), query());
    count.textContent = live.whole ? `${rows.length.toLocaleString("en")} of ${live.rows.size.toLocaleString("en")}` : `${live.rows.size.toLocaleString("en")} so far`;
    if (lastColumns !== columns().join()) { lastColumns = columns().join(); table.setColumns(columns()); }
    drawFilters();
    table.show(rows, query().sort || "-created");
    table.element.dataset.took = (performance.now() - began).toFixed(1);
  }

  async function askPlaces() {
    if (!["place", "starts"].some((each) => columns().includes(each)) || performance.now() - asked < 1500) return;
    if (live.whole) asked = performance.now();
    const uids = table.visible().filter((row) => get(row, "state") === "Pending" && !get(row, "cluster")).map((row) => get(row, "uid"));
    for (const uid of [...places.keys()]) if (places.size > 5000) places.delete(uid);
    if (!uids.length) return;
    try {
      for (const [uid, told] of Object.entries(await (await ask(`/api/places?uids=${uids.slice(0, 200).join(",")}`)).json())) places.set(uid, told);
      table.repaint();
    } catch { /* the next look may tell */ }
  }

  const tick = setInterval(() => { table.repaint(); askPlaces(); }, 1000);
  draw();
  askPlaces();
  return {
    update() { if (!timer) timer = setTimeout(draw, Math.max(0, dueAt - performance.now())); },
    query: draw,
    leave() { clearInterval(tick); clearTimeout(timer); },
  };
}

