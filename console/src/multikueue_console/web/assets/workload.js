// One workload: its story as a timeline over clusters, why it waits or runs there, its pods, events, logs and object.

import { action, ago, amounts, ask, badge, command, cut, h, link, local, now, s, seconds, span, starting, time, update, when } from "./dom.js";
import { get, live } from "./live.js";

const TABS = [["why", "Why"], ["steps", "Story"], ["pods", "Pods"], ["events", "Events"], ["log", "Log"], ["object", "YAML"]];
const WORDS = { Submitted: "submitted", Reserved: "got quota", Asked: "was asked", Won: "won", Running: "all pods ready", Evicted: "evicted", Finished: "finished", Failed: "failed" };

export function workloadPage(main, namespace, name) {
  const base = `/api/workloads/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  const head = h("div", { class: "head" }), what = h("section", { class: "card" }), line = h("section", { class: "card", "aria-labelledby": "time-title" });
  const panel = h("div", { role: "tabpanel", tabindex: "0" }), bar = h("div", { class: "tabs", role: "tablist", "aria-label": "About the workload" });
  main.append(head, what, line, h("section", { class: "card" }, bar, panel));
  let tab = location.hash.slice(1) || "why", story = null, version = null, asked = 0, stop = null;

  async function look() {
    asked = performance.now();
    try { story = await (await ask(base)).json(); } catch (error) { story = null; update(head, h("h1", {}, name)); update(what, h("p", {}, error.message)); update(line); return; }
    draw();
  }

  function draw() {
    const { row, answer } = story;
    document.title = `${row.name} · multikueue`;
    update(head, h("h1", {}, row.name), badge(row.state), h("span", { class: "dim" }, `in ${row.namespace}, queue `, link(`/workloads?namespace=${row.namespace}&queue=${row.queue}`, row.queue)), turn(row));
    function turn({ state }) {
      const verbs = state === "Held" ? ["release", "priority", "cancel"] : ["hold", "requeue", "priority", "cancel"];
      return ["Finished", "Failed"].includes(state) ? null : verbs.map((verb) => action(live.hello.actions?.[verb], verb, `${base}/${verb}`, row.name));
    }
    const first = answer.obstacles?.[0];
    update(what, h("p", {}, local(answer.summary)), (answer.obstacles || []).map((each, number) => [number ? h("p", { class: "dim" }, `Also: ${local(each.text)}`) : null, each.repair ? h("div", { class: "repair" }, "What helps:", ...each.repair.commands.map(command), h("span", {}, `(${each.repair.by})`)) : null]),
      story.place ? h("p", { class: "dim" }, `Place ${story.place} of ${story.line} in the line of `, link(`/queues/${row.cluster_queue}`, row.cluster_queue), first && first.repair ? "" : ".") : null,
      story.starts !== undefined ? h("p", { class: "dim" }, story.starts ? `Starts ${starting(story.starts)}, in four of five cases.` : "When it starts is unknown: too few jobs were seen, or too many wait before it.") : null);
    update(line, h("h2", { id: "time-title" }, "Timeline"), timeline(story));
    update(bar, TABS.map(([key, title]) => h("button", { type: "button", role: "tab", id: `tab-${key}`, "data-tab": key, "aria-selected": String(key === tab), tabindex: key === tab ? "0" : "-1" }, title)));
    if (tab === "why" || tab === "steps") show();
  }

  bar.addEventListener("click", (event) => { const key = event.target.dataset.tab; if (key) { tab = key; history.replaceState({}, "", `#${key}`); if (story) draw(); show(); } });
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    tab = TABS[(TABS.findIndex(([key]) => key === tab) + step + TABS.length) % TABS.length][0];
    history.replaceState({}, "", `#${tab}`); draw(); show(); bar.querySelector('[aria-selected="true"]').focus();
  });

  async function show() {
    stop?.(); stop = null;
    panel.setAttribute("aria-labelledby", `tab-${tab}`);
    if (tab === "why") return update(panel, why(story));
    if (tab === "steps") return update(panel, steps(story));
    const mine = tab;
    try {
      if (tab === "log") return await log();
      const tree = await (await ask(`${base}/${tab}`)).json();
      if (mine !== tab) return;
      update(panel, tab === "object" ? h("pre", {}, yaml(tree)) : tab === "pods" ? pods(tree.items || []) : events(tree.items || []));
    } catch (error) { if (mine === tab) update(panel, h("p", { class: "dim" }, `Not seen: ${error.message}`)); }
  }

  async function log() {
    const all = (await (await ask(`${base}/pods`)).json()).items || [];
    if (!all.length) return update(panel, h("p", { class: "dim" }, "It has no pods, so there is no log."));
    const text = h("pre", { tabindex: "0", "aria-label": "Log" }), choice = h("select", { "aria-label": "Pod" }, all.map((each) => h("option", { value: each.metadata.name }, each.metadata.name)));
    update(panel, h("div", { class: "filters" }, choice), text);
    const follow = async () => {
      stop?.();
      const cut = new AbortController();
      stop = () => cut.abort();
      text.textContent = "";
      try {
        const answer = await ask(`${base}/log?pod=${encodeURIComponent(choice.value)}&follow=true&tailLines=500`, { signal: cut.signal });
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let part = await reader.read(); !part.done; part = await reader.read()) {
          const isAtEnd = text.scrollTop + text.clientHeight > text.scrollHeight - 30;
          text.append(part.value);
          while (text.childNodes.length > 2000) text.firstChild.remove();
          if (isAtEnd) text.scrollTop = text.scrollHeight;
        }
      } catch (error) { if (error.name !== "AbortError") text.append(`\n(${error.message})`); }
    };
    choice.addEventListener("change", follow);
    follow();
  }

  function watch() {
    for (const row of live.rows.values()) if (get(row, "workload") === name && get(row, "namespace") === namespace) {
      if (row !== version) { version = row; look(); }
      return;
    }
  }
  look().then(() => story && show());
  const tick = setInterval(() => { if (story && !["Finished", "Failed"].includes(story.row.state)) { if (performance.now() - asked > 5000) look(); else update(line, h("h2", { id: "time-title" }, "Timeline"), timeline(story)); } }, 1000);
  return { update: watch, leave() { clearInterval(tick); stop?.(); } };
}

function why(story) {
  if (!story) return null;
  const { row } = story;
  const facts = { "Asks for": amounts(row.amounts), "Pods": Object.entries(story.pod_sets).map(([set, count]) => `${count} ${set}`).join(", "), "Priority": String(row.priority), "ClusterQueue": row.cluster_queue, "Flavors": Object.entries(story.flavors).map(([resource, flavor]) => `${resource}: ${flavor}`).join(", "), "Submitted": `${when(row.created)} (${ago(row.created)} ago)`, "Before": (story.answer.past || []).map((each) => `${each.at ? `${when(seconds(each.at))}: ` : ""}${each.text}`).join("; "), "Not seen": story.answer.notSeen || "" };
  return [h("dl", { class: "facts" }, Object.entries(facts).filter(([, value]) => value).map(([key, value]) => [h("dt", {}, key), h("dd", {}, value)])),
    story.checks.length ? [h("h3", { class: "above" }, "Admission checks"), plain(["Check", "State", "Message"], story.checks.map((each) => [each.name, each.state, each.message]))] : null,
    story.workers.length ? [h("h3", { class: "above" }, "Clusters"), plain(["Cluster", "To this workload", "Place", "In its words"], story.workers.map((each) => [each.cluster, each.state, each.place || "", each.message || ""]))] : null];
}

const plain = (titles, rows) => h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": titles.join(", ") }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, titles.map((each) => h("th", { scope: "col" }, each)))), h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((each) => h("td", {}, String(each))))))));

function steps(story) {
  if (!story) return null;
  return h("ol", { class: "steps" }, story.steps.map((each) => h("li", {}, h("time", {}, when(seconds(each.at)) || "not seen when"), h("span", {}, h("b", {}, each.cluster || "manager"), ` ${WORDS[each.what]}${each.text ? `: ${each.text}` : ""}${each.attempt > 1 ? ` (attempt ${each.attempt})` : ""}`))));
}

function pods(items) {
  if (!items.length) return h("p", { class: "dim" }, "No pods.");
  return plain(["Pod", "Phase", "Node", "Ready", "Age"], items.map((each) => [each.metadata.name, each.status?.phase || "", each.spec?.nodeName || "", (each.status?.containerStatuses || []).filter((one) => one.ready).length, ago(seconds(each.metadata.creationTimestamp))]));
}

function events(items) {
  if (!items.length) return h("p", { class: "dim" }, "No events.");
  const at = (each) => seconds(each.lastTimestamp || each.eventTime || each.metadata.creationTimestamp);
  return plain(["When", "Type", "Reason", "About", "Message"], items.sort((a, b) => at(b) - at(a)).map((each) => [when(at(each)), each.type || "", each.reason || "", `${each.involvedObject?.kind || ""}/${each.involvedObject?.name || ""}`, each.message || ""]));
}

/** A lane for the manager and one for each cluster; time runs to the right. */
function timeline(story) {
  const { row, attempts } = story, created = row.created, end = row.ended || now();
  const from = created, size = Math.max(end - from, 1), WIDE = Math.max(560, document.getElementById("main").clientWidth - 90), LABEL = 150, LANE = 34;
  const x = (at) => LABEL + (WIDE - LABEL - 12) * Math.min(1, Math.max(0, (at - from) / size));
  const lanes = ["manager", ...new Set(attempts.flatMap((each) => [...(each.nominated || []), each.cluster]).filter(Boolean))];
  const parts = [];
  const block = (lane, begin, until, kind, words) => {
    const y = 12 + lanes.indexOf(lane) * LANE, wide = Math.max(3, x(until) - x(begin));
    parts.push(s("rect", { class: kind, x: x(begin), y: y + 4, width: wide, height: 18, rx: 5 }, s("title", {}, `${lane}: ${words}, ${time(begin)} to ${time(until)} (${span(until - begin)})`)));
  };
  let waits = created;
  attempts.forEach((raw) => {
    const reserved = seconds(raw.reservedAt), askedAt = seconds(raw.nominatedAt) || reserved, won = seconds(raw.wonAt), running = seconds(raw.runningAt), ended = seconds(raw.endedAt) || end;
    if (reserved) { block("manager", waits, reserved, "wait", "waits for quota"); block("manager", reserved, won || ended, "reserved", "has quota, waits for a cluster"); }
    for (const cluster of raw.nominated || []) if (cluster !== raw.cluster || won > askedAt) block(cluster, askedAt, won || ended, "asked", cluster === raw.cluster ? "asked, and won" : won ? "asked, and lost" : "asked");
    if (raw.cluster && won) {
      if (running > won) block(raw.cluster, won, running, "start", "starts");
      block(raw.cluster, running || won, ended, raw.isOver && raw.end === "Failed" ? "fail" : running || raw.end || row.state === "Running" ? "run" : "start", raw.isOver ? `ran: ${raw.end}` : raw.end ? `ran, then ${raw.end}` : "is there");
    }
    waits = ended;
  });
  const last = attempts[attempts.length - 1];
  if (!last || (last.endedAt && !last.isOver)) block("manager", waits, end, row.state === "Held" ? "reserved" : "wait", row.state === "Held" ? "is held" : "waits for quota");
  const height = 12 + lanes.length * LANE + 22;
  const marks = [0, 0.25, 0.5, 0.75, 1].map((part) => s("text", { class: "sub", x: x(from + part * size), y: height - 5, "text-anchor": part === 1 ? "end" : part ? "middle" : "start" }, part ? `+${span(part * size)}` : time(from)));
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Timeline" }, s("svg", { class: "timeline", viewBox: `0 0 ${WIDE} ${height}`, role: "img", "aria-label": story.steps.map((each) => `${each.cluster || "manager"} ${WORDS[each.what]}`).join(", ") },
    lanes.map((lane, number) => [s("text", { x: 0, y: 12 + number * LANE + 18 }, cut(lane, 20)), s("line", { class: "lane", x1: LABEL, x2: WIDE - 12, y1: 12 + number * LANE + 29, y2: 12 + number * LANE + 29 })]), parts, marks),
  h("div", { class: "legend" }, h("span", { class: "c-wait" }, h("i"), "waits"), h("span", { class: "c-lent" }, h("i"), "has quota"), h("span", { class: "c-borrowed" }, h("i"), "asked"), h("span", { class: "c-start" }, h("i"), "starts"), h("span", { class: "c-run" }, h("i"), "runs")));
}

/** A tree as YAML, without what servers write for themselves. */
export function yaml(value, indent = "") {
  if (value === null || typeof value !== "object") return scalar(value);
  if (Array.isArray(value)) return value.length ? value.map((each) => `\n${indent}- ${yaml(each, `${indent}  `).replace(/^\n\s*/, "")}`).join("") : "[]";
  const entries = Object.entries(value).filter(([key]) => key !== "managedFields");
  if (!entries.length) return "{}";
  return entries.map(([key, each]) => `\n${indent}${key}: ${Array.isArray(each) ? yaml(each, indent) : yaml(each, `${indent}  `)}`).join("").replace(indent === "" ? /^\n/ : /^$/, "");
}

function scalar(value) {
  if (typeof value !== "string") return String(value);
  return /^[A-Za-z/][\w./@ -]*$/.test(value) && !/^(true|false|null|yes|no|on|off)$/i.test(value) && !value.endsWith(" ") ? value : JSON.stringify(value);
}
