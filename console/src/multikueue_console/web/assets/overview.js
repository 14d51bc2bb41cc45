// The fleet as a picture: queues left, clusters right, and between them what is asked and what is there.

import { ago, badge, command, cut, h, link, local, number, s, update } from "./dom.js";
import { get, live } from "./live.js";
import { href } from "./workloads.js";

const ORDER = [["Pending", "waiting"], ["Starting", "starting"], ["Running", "running"], ["Held", "held"], ["Unknown", "unknown"], ["Failed", "failed"], ["Finished", "finished"]];
const GAP = 14, NODE = 54, LEFT = 300, RIGHT = 620, WIDTH = 920, MOST = 14;

export function overviewPage(main) {
  const kpis = h("div", { class: "kpis" }), picture = h("section", { class: "card", "aria-labelledby": "fleet-title" }), wrong = h("section", { class: "card", "aria-labelledby": "wrong-title" });
  const name = h("span", { class: "dim" }), late = h("section", { class: "card", "aria-labelledby": "late-title" });
  main.append(h("div", { class: "head" }, h("h1", {}, "Overview"), name), kpis, h("div", { class: "two" }, h("div", { class: "stack" }, picture, late), wrong));
  let due = 0;
  const draw = () => {
    const fleet = live.fleet;
    if (!fleet) return;
    name.textContent = live.hello.name || "";
    update(kpis, ORDER.filter(([state]) => state !== "Unknown" || fleet.states[state]).map(([state, word]) => h("a", { class: `kpi t-${state}`, href: `/workloads?state=${state}`, "data-link": true }, h("b", {}, number(fleet.states[state] || 0)), h("span", {}, word))));
    update(picture, h("h2", { id: "fleet-title" }, "The fleet now"), drawFleet(fleet), legend());
    update(wrong, h("h2", { id: "wrong-title" }, "What is wrong now"), problems(fleet.problems));
    if (performance.now() > due) { due = performance.now() + (live.rows.size > 5000 ? 3000 : 300); update(late, h("h2", { id: "late-title" }, "Lately"), lately()); }
  };
  draw();
  return { update: draw, leave() {} };
}

/** What has changed last, the newest first. */
function lately(most = 8) {
  const since = live.column.since, newest = [];
  for (const row of live.rows.values()) {
    if (newest.length === most && row[since] <= newest[most - 1][since]) continue;
    newest.push(row);
    newest.sort((a, b) => b[since] - a[since] || (get(a, "uid") < get(b, "uid") ? -1 : 1));
    newest.length = Math.min(newest.length, most);
  }
  return newest.length ? h("ol", { class: "late" }, newest.map((row) => h("li", {}, badge(get(row, "state")), h("span", {}, link(href(row), get(row, "name")), h("span", { class: "dim" }, ` in ${get(row, "namespace")}/${get(row, "queue")}${get(row, "cluster") ? `, on ${get(row, "cluster")}` : ""}`)), h("span", { class: "dim nowrap" }, ago(get(row, "since")))))) : h("p", { class: "dim" }, "Nothing yet.");
}

export function problems(all, most = 12) {
  const out = Object.entries(live.health).map(([plural, why]) => ({ level: "error", about: "", text: `The console cannot follow ${plural}: ${why}`, commands: [], by: "", count: 0 }));
  const found = [...out, ...all];
  if (!found.length) return h("p", { class: "fine" }, h("span", { class: "badge t-Running" }, "All well"), "Nothing needs anybody.");
  return [...found.slice(0, most).map((each) => h("article", { class: `problem t-${each.level}` }, h("i", { "aria-hidden": "true" }),
    h("div", {}, target(each), each.since ? h("span", { class: "dim nowrap" }, ` · since ${ago(each.since)}`) : null,
      each.commands.length ? h("div", { class: "repair" }, "What helps:", ...each.commands.map(command), each.by ? h("span", {}, `(${each.by})`) : null) : null))),
  found.length > most ? h("p", { class: "dim" }, `and ${found.length - most} more`) : null];
}

function target(problem) {
  const [kind, ...rest] = problem.about.split("/");
  const path = { cluster: `/clusters?q=${rest[0]}`, queue: `/queues/${rest[0]}`, localqueue: `/workloads?namespace=${rest[0]}&queue=${rest[1]}`, code: `/workloads?code=${rest[0]}${problem.namespace ? `&namespace=${problem.namespace}` : ""}` }[kind];
  return path ? link(path, local(problem.text)) : h("span", {}, problem.text);
}

function legend() {
  return h("div", { class: "legend" }, h("span", { class: "c-wait" }, h("i"), "waits"), h("span", { class: "c-borrowed" }, h("i"), "races: asked of a cluster"), h("span", { class: "c-start" }, h("i"), "starts"), h("span", { class: "c-run" }, h("i"), "runs"), h("span", { class: "c-used" }, h("i"), "what is there, by queue"));
}

function drawFleet(fleet) {
  const waiting = new Map(), there = new Map();
  for (const each of fleet.local) waiting.set(`${each.namespace}/${each.name}`, each);
  for (const flow of fleet.flows) {
    const key = `${flow.namespace}/${flow.queue}`;
    there.set(key, (there.get(key) || 0) + flow.there);
    if (!waiting.has(key)) waiting.set(key, { namespace: flow.namespace, name: flow.queue, pending: 0, admitted: flow.there });
  }
  const weight = (each) => each.pending + (there.get(`${each.namespace}/${each.name}`) || 0);
  const all = [...waiting.values()].sort((a, b) => weight(b) - weight(a) || (a.name < b.name ? -1 : 1));
  const queues = all.slice(0, MOST).sort((a, b) => (`${a.name}/${a.namespace}` < `${b.name}/${b.namespace}` ? -1 : 1)), clusters = fleet.clusters.slice(0, MOST);
  if (!queues.length && !clusters.length) return h("p", { class: "empty" }, "No queue and no cluster that you may see.");
  const rows = Math.max(queues.length, clusters.length, 1), height = 34 + rows * (NODE + GAP);
  const at = (index, count) => 30 + (rows - count) * (NODE + GAP) / 2 + index * (NODE + GAP);
  const qAt = new Map(queues.map((each, index) => [`${each.namespace}/${each.name}`, at(index, queues.length)]));
  const cAt = new Map(clusters.map((each, index) => [each.name, at(index, clusters.length)]));
  const mostWaiting = Math.max(1, ...queues.map((each) => each.pending)), mostThere = Math.max(1, ...clusters.map((each) => each.load.racing + each.load.starting + each.load.running));
  const ribbons = fleet.flows.filter((flow) => qAt.has(`${flow.namespace}/${flow.queue}`) && cAt.has(flow.cluster)).flatMap((flow) => {
    const y1 = qAt.get(`${flow.namespace}/${flow.queue}`) + NODE / 2, y2 = cAt.get(flow.cluster) + NODE / 2;
    const d = (off) => `M${LEFT + 4} ${y1 + off}C${(LEFT + RIGHT) / 2} ${y1 + off} ${(LEFT + RIGHT) / 2} ${y2 + off} ${RIGHT - 4} ${y2 + off}`;
    return [flow.there ? s("path", { class: "there", d: d(0), "stroke-width": Math.min(26, 2 + 3 * Math.sqrt(flow.there)) }) : null, flow.racing ? s("path", { class: "asks", d: d(flow.there ? -9 : 0), "stroke-width": 3 }) : null];
  });
  const name = (x, y, words, most) => s("text", { x, y }, cut(words, most));
  const boxes = queues.map((each) => {
    const key = `${each.namespace}/${each.name}`, y = qAt.get(key), running = there.get(key) || 0;
    return s("a", { href: `/workloads?namespace=${each.namespace}&queue=${each.name}`, "data-link": "", class: each.problem || each.is_held ? "away" : "" },
      s("title", {}, `${key}: ${each.pending} wait, ${running} on clusters${each.problem ? `. ${each.problem}` : ""}`),
      s("rect", { class: "node", x: 2, y, width: LEFT - 2, height: NODE, rx: 11 }),
      name(16, y + 21, each.name, 22), s("text", { class: "sub", x: LEFT - 14, y: y + 21, "text-anchor": "end" }, `${number(each.pending)} wait · ${number(running)} there`),
      s("text", { class: "sub", x: 16, y: y + 40 }, each.namespace.length > 16 ? `${each.namespace.slice(0, 15)}…` : each.namespace),
      s("rect", { class: "track", x: 130, y: y + 33, width: LEFT - 144, height: 7, rx: 3.5 }),
      s("rect", { class: "wait", x: 130, y: y + 33, width: (LEFT - 144) * each.pending / mostWaiting, height: 7, rx: 3.5 }));
  });
  const sites = clusters.map((each) => {
    const y = cAt.get(each.name), load = each.load, width = WIDTH - RIGHT - 28;
    const bar = (count, before, kind) => s("rect", { class: kind, x: RIGHT + 14 + width * before / mostThere, y: y + 33, width: Math.max(0, width * count / mostThere), height: 7 });
    return s("a", { href: `/clusters?q=${each.name}`, "data-link": "", class: each.state === "Away" || each.state === "Gone" ? "away" : "" },
      s("title", {}, `${each.name}: ${each.state}${each.message ? `. ${each.message}` : ""}`),
      s("rect", { class: "node", x: RIGHT, y, width: WIDTH - RIGHT - 2, height: NODE, rx: 11 }),
      s("circle", { class: `light t-${each.state}`, cx: RIGHT + 19, cy: y + 17, r: 5 }), name(RIGHT + 32, y + 21, each.name, 18),
      s("text", { class: "sub", x: WIDTH - 16, y: y + 21, "text-anchor": "end" }, each.state === "Active" ? `${number(load.running + load.starting)} run · ${number(load.racing)} race` : each.state.toLowerCase()),
      s("rect", { class: "track", x: RIGHT + 14, y: y + 33, width, height: 7, rx: 3.5 }),
      bar(load.running, 0, "run"), bar(load.starting, load.running, "start"), bar(load.racing, load.running + load.starting, "race"));
  });
  const cap = (x, words) => s("text", { class: "cap", x, y: 16 }, words);
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Queues and clusters" }, s("svg", { class: "fleet", viewBox: `0 0 ${WIDTH} ${height}`, role: "group", "aria-label": `${queues.length} queues and ${clusters.length} clusters` },
    ribbons, cap(4, all.length > MOST ? `Queues: the busiest ${MOST} of ${all.length}` : "Queues"), cap(RIGHT + 2, fleet.clusters.length > MOST ? `Clusters: ${MOST} of ${fleet.clusters.length}` : "Clusters"), boxes, sites));
}
