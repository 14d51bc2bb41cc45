// Who uses what now: by namespace, queue, user and cluster. And how workers are chosen.

import { amounts, h, link, number, span, update } from "./dom.js";
import { get, live } from "./live.js";
import { go, query } from "./route.js";

const WAYS = { namespace: "Namespace", queue: "Queue", user: "User", cluster: "Cluster" };

export function peoplePage(main) {
  const way = () => (WAYS[query().by] ? query().by : "namespace");
  const table = h("section", { class: "card" }), tabs = h("div", { class: "tabs", role: "group", "aria-label": "Use by" });
  main.append(h("div", { class: "head" }, h("h1", {}, "People"), h("span", { class: "dim" }, "Who uses what now, and how long it waited")), table);
  let due = 0, timer = 0;
  const draw = () => {
    timer = 0; due = performance.now() + 1000;
    update(tabs, Object.entries(WAYS).map(([name, title]) => h("button", { type: "button", "data-by": name, "aria-pressed": String(name === way()) }, title)));
    const found = new Map();
    for (const row of live.rows.values()) {
      const name = way() === "queue" ? `${get(row, "namespace")}/${get(row, "queue")}` : get(row, way()) || "–";
      const sum = found.get(name) || { wait: 0, there: 0, done: 0, failed: 0, use: {}, waited: [] };
      const state = get(row, "state");
      if (state === "Finished") sum.done += 1; else if (state === "Failed") sum.failed += 1; else if (get(row, "started")) sum.there += 1; else sum.wait += 1;
      if (get(row, "started") && state !== "Finished" && state !== "Failed") for (const [resource, value] of Object.entries(get(row, "amounts"))) sum.use[resource] = (sum.use[resource] || 0) + value;
      if (get(row, "started")) sum.waited.push(get(row, "started") - get(row, "created"));
      found.set(name, sum);
    }
    const middle = (all) => (all.length ? span(all.sort((a, b) => a - b)[Math.floor(all.length / 2)]) : "");
    const rows = [...found].sort(([, a], [, b]) => b.there - a.there || b.wait - a.wait).slice(0, 200);
    const filter = (name) => (way() === "queue" ? `/workloads?namespace=${name.split("/")[0]}&queue=${name.split("/")[1]}` : `/workloads?${way()}=${name}`);
    update(table, tabs, h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Use" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, WAYS[way()]), h("th", { scope: "col" }, "Quota in use"), ...["On clusters", "Wait", "Finished", "Failed", "Waited, middle"].map((each) => h("th", { scope: "col", class: "num" }, each)))),
      h("tbody", {}, rows.map(([name, sum]) => h("tr", {}, h("td", {}, name === "–" ? name : link(filter(name), name)), h("td", {}, amounts(sum.use)), ...[sum.there, sum.wait, sum.done, sum.failed].map((value) => h("td", { class: "num" }, number(value))), h("td", { class: "num" }, middle(sum.waited))))))));
  };
  tabs.addEventListener("click", (event) => { const by = event.target.dataset.by; if (by) { go({ ...query(), by }); draw(); } });
  draw();
  return { update() { if (!timer) timer = setTimeout(draw, Math.max(0, due - performance.now())); }, query: draw, leave() { clearTimeout(timer); } };
}

export function strategiesPage(main) {
  const how = h("section", { class: "card" }), who = h("section", { class: "card" });
  main.append(h("div", { class: "head" }, h("h1", {}, "Strategies"), h("span", { class: "dim" }, "How workers are chosen, and who won")), how, who);
  const flat = (trees) => trees.flatMap((each) => [...each.queues, ...flat(each.cohorts)]);
  let due = 0, timer = 0;
  const draw = () => {
    timer = 0; due = performance.now() + 1000;
    if (!live.fleet) return;
    const queues = flat(live.fleet.trees);
    update(how, h("h2", {}, "By queue"), queues.length ? h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Strategies by queue" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ...["ClusterQueue", "Strategy", "Checks"].map((each) => h("th", { scope: "col" }, each)))), h("tbody", {}, queues.map((each) => h("tr", {}, h("td", {}, link(`/queues/${each.name}`, each.name)), h("td", {}, each.strategy || (each.checks.length ? "the manager's default" : "none: it runs where it was submitted")), h("td", {}, each.checks.join(", "))))))) : h("p", { class: "dim" }, "ClusterQueues are not for you to see."));
    const won = new Map();
    let all = 0;
    for (const row of live.rows.values()) if (get(row, "cluster")) {
      all += 1;
      const sum = won.get(get(row, "cluster")) || { won: 0, failed: 0, waited: 0 };
      sum.won += 1; if (get(row, "state") === "Failed") sum.failed += 1;
      sum.waited += Math.max(0, get(row, "started") - get(row, "created"));
      won.set(get(row, "cluster"), sum);
    }
    const asked = Object.fromEntries(live.fleet.clusters.map((each) => [each.name, each.load.racing]));
    const names = [...new Set([...won.keys(), ...Object.keys(asked)])].sort((a, b) => (won.get(b)?.won || 0) - (won.get(a)?.won || 0) || (a < b ? -1 : 1));
    update(who, h("h2", {}, "Who won"), h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Who won" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Cluster"), ...["Won", "Share", "Asked now", "Failed there", "Waited before, mean"].map((each) => h("th", { scope: "col", class: "num" }, each)))),
      h("tbody", {}, names.map((name) => { const sum = won.get(name) || { won: 0, failed: 0, waited: 0 }; return h("tr", {}, h("td", {}, link(`/workloads?cluster=${name}`, name)), ...[number(sum.won), all ? `${number(100 * sum.won / all)} %` : "", number(asked[name] || 0), number(sum.failed), sum.won ? span(sum.waited / sum.won) : ""].map((value) => h("td", { class: "num" }, value))); })))));
  };
  draw();
  return { update() { if (!timer) timer = setTimeout(draw, Math.max(0, due - performance.now())); }, leave() { clearTimeout(timer); } };
}
