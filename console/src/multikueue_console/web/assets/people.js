// Who uses what now: by namespace, queue, user and cluster. And how workers are chosen.

import { amounts, ask, command, h, link, number, seconds, span, update, when } from "./dom.js";
import { get, live } from "./live.js";
import { go, query } from "./route.js";

const DAYS = { 1: "A day", 7: "7 days", 30: "30 days", 90: "90 days" };
const WAYS = { namespace: "Namespace", queue: "Queue", user: "User", cluster: "Cluster", hour: "Hour" };

export function peoplePage(main) {
  const way = () => (WAYS[query().by] ? query().by : "namespace");
  const table = h("section", { class: "card" }), before = h("section", { class: "card" }), money = h("section", { class: "card" }), tabs = h("div", { class: "tabs", role: "group", "aria-label": "Use by" });
  main.append(h("div", { class: "head" }, h("h1", {}, "People"), h("span", { class: "dim" }, "Who uses what now, and how long it waited")), table, before, money);
  const title = h("h2", {}, "Before now"), far = () => (DAYS[query().days] ? query().days : "7");
  let asked = "", at = 0;
  /** What the history tells, asked for once a minute. */
  async function past() {
    if (live.hello.history === undefined) return;
    if (!live.hello.history) return update(before, title, h("p", { class: "dim" }, "This console keeps no memory. Record one, and show it:"), command("multikueue record"), command("multikueue console --history sqlite:///FILE"));
    const path = `/api/use?by=${way()}&days=${far()}`;
    if (path === asked && performance.now() - at < 60000) return;
    const isOther = path !== asked;
    asked = path; at = performance.now();
    const span_ = h("div", { class: "tabs", role: "group", "aria-label": "How far back" }, Object.entries(DAYS).map(([days, name]) => h("button", { type: "button", "data-days": days, "aria-pressed": String(days === far()) }, name)));
    if (isOther) update(before, title, span_, h("p", { class: "dim" }, "…"));
    try {
      const told = await (await ask(path)).json();
      if (path !== asked) return;
      update(before, title, span_, told.items.length ? used(told.items) : h("p", { class: "dim" }, "Nothing was recorded in this time."),
        told.length > told.items.length ? h("p", { class: "dim" }, `The first ${told.items.length} of ${number(told.length)}; multikueue report has all.`) : null,
        told.gaps.map((each) => h("p", { class: "dim" }, `From ${when(seconds(each.since))} to ${when(seconds(each.until))}: ${each.reason}.`)));
    } catch (error) { if (path === asked) update(before, title, span_, h("p", {}, error.message)); }
  }
  const used = (items) => h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Use before now" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, WAYS[way()]), ...["GPU hours", "CPU hours", "Ended", "Failed", "Evicted", "Preempted", "Mean wait", "Longest wait"].map((each) => h("th", { scope: "col", class: "num" }, each)))),
    h("tbody", {}, items.map((each) => h("tr", {}, h("td", {}, way() === "hour" ? when(seconds(each.name)) : each.name || "–"), ...[each.gpu_hours, each.cpu_hours, each.ended, each.failed, each.evicted, each.preempted].map((value) => h("td", { class: "num" }, number(value))), ...[each.wait_mean, each.wait_max].map((value) => h("td", { class: "num" }, value === null ? "" : span(value))))))));
  /** What queues had spent when their manager last wrote it. */
  function drawMoney() {
    const all = live.fleet ? [...flat(live.fleet.trees), ...live.fleet.local].filter((each) => each.spending) : [];
    money.hidden = !all.length;
    update(money, h("h2", {}, "Money"), h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Money" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Queue"), ...["Spent", "May spend", "Within"].map((each) => h("th", { scope: "col", class: "num" }, each)), h("th", { scope: "col" }, "At"))),
      h("tbody", {}, all.map((each) => h("tr", {}, h("td", {}, each.namespace ? `${each.namespace}/${each.name}` : link(`/queues/${each.name}`, each.name)), ...[number(each.spending.spent), each.spending.most === null || each.spending.most === undefined ? "any amount" : number(each.spending.most), span(3600 * each.spending.hours)].map((value) => h("td", { class: "num" }, value)), h("td", { class: "nowrap" }, when(each.spending.at))))))));
  }
  let due = 0, timer = 0;
  const draw = () => {
    timer = 0; due = performance.now() + 1000;
    past();
    update(tabs, Object.entries(WAYS).map(([name, title]) => h("button", { type: "button", "data-by": name, "aria-pressed": String(name === way()) }, title)));
    drawMoney();
    if (way() === "hour") return update(table, tabs, h("p", { class: "dim" }, "By hour, use is told of the time before now."));
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
  before.addEventListener("click", (event) => { const days = event.target.dataset.days; if (days) { go({ ...query(), days }); draw(); } });
  draw();
  return { update() { if (!timer) timer = setTimeout(draw, Math.max(0, due - performance.now())); }, query: draw, leave() { clearTimeout(timer); } };
}

const flat = (trees) => trees.flatMap((each) => [...each.queues, ...flat(each.cohorts)]);

/** A strategy's opinion of each worker: the total, and what each scorer gave with its weight. */
function weights({ choice, workers, quota }) {
  if (!choice && (quota || workers?.length)) return [h("p", { class: "dim" }, "No worker is chosen for it now: it waits for something else, as its page says.")];
  if (!choice) return [h("p", { class: "dim" }, "The manager tells nothing of it: that takes its visibility API, and your right to ask it.")];
  if (choice.problem) return [h("p", {}, choice.problem)];
  const parts = [...new Map((choice.workers || []).flatMap((each) => each.scores || []).map((each) => [each.scorer, each.weight || 1]))];
  const score = (each, name) => { const part = (each.scores || []).find((one) => one.scorer === name); return part ? h("td", { class: "num" }, h("div", {}, part.value === undefined || part.value === null ? "unknown" : part.value.toFixed(2)), h("div", { class: "dim" }, part.reason || "")) : h("td", { class: "num" }); };
  const why = (each) => (each.usable === false ? each.why : each.refused ? `refused${each.filter ? ` by ${each.filter}` : ""}: ${each.refused}` : each.nominated ? "nominated" : "");
  return [h("p", {}, `Strategy ${choice.strategy}${choice.reason ? `: ${choice.reason}` : ""}`),
    h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Scores by part" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Worker"), h("th", { scope: "col", class: "num" }, "Total"), parts.map(([name, weight]) => h("th", { scope: "col", class: "num" }, weight === 1 ? name : `${name} × ${number(weight)}`)), h("th", { scope: "col" }, "Then"))),
      h("tbody", {}, (choice.workers || []).map((each) => h("tr", {}, h("td", {}, link(`/workloads?cluster=${each.worker}`, each.worker)), h("td", { class: "num" }, each.total === undefined || each.total === null ? "" : each.total.toFixed(2)), parts.map(([name]) => score(each, name)), h("td", {}, why(each)))))))];
}

export function strategiesPage(main) {
  const how = h("section", { class: "card" }), who = h("section", { class: "card" }), scores = h("section", { class: "card" });
  main.append(h("div", { class: "head" }, h("h1", {}, "Strategies"), h("span", { class: "dim" }, "How workers are chosen, and who won")), how, who, scores);
  const pick = h("select", { "aria-label": "Workload", onchange: () => { go({ ...query(), of: pick.value }, true); weigh(); } }), weighed = h("div", {}, h("p", { class: "dim" }, "…"));
  scores.append(h("h2", {}, "Scores by part"), h("p", { class: "dim" }, "What the strategy's filters and scorers say of each worker for a workload that waits, as its manager sees it now."), h("div", { class: "filters" }, h("label", {}, "Workload ", pick)), weighed);
  let told = "", at = 0;
  /** What the manager tells of the workload that is picked, asked for when another one is picked and every ten seconds. */
  async function weigh() {
    const of = pick.value;
    if (!of) return update(weighed, h("p", { class: "dim" }, "No workload waits."));
    if (of === told && performance.now() - at < 10000) return;
    told = of; at = performance.now();
    let found;
    try { found = await (await ask(`/api/workloads/${of}`)).json(); } catch (error) { if (of === told) update(weighed, h("p", {}, error.message)); return; }
    if (of === told) update(weighed, ...weights(found));
  }
  let due = 0, timer = 0;
  const draw = () => {
    timer = 0; due = performance.now() + 1000;
    if (!live.fleet) return;
    const waiting = [...live.rows.values()].filter((row) => get(row, "state") === "Pending").slice(0, 200).map((row) => `${get(row, "namespace")}/${get(row, "workload")}`);
    const wanted = query().of || pick.value;
    update(pick, [...new Set([...(query().of ? [query().of] : []), ...waiting])].map((name) => h("option", { value: name }, name)));
    if (wanted && [...pick.options].some((each) => each.value === wanted)) pick.value = wanted;
    weigh();
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
    const figures = Object.fromEntries(live.fleet.clusters.filter((each) => each.figures).map((each) => [each.name, each.figures])), tells = Object.keys(figures).length > 0;
    const asked = Object.fromEntries(live.fleet.clusters.map((each) => [each.name, each.load.racing]));
    const names = [...new Set([...won.keys(), ...Object.keys(asked)])].sort((a, b) => (won.get(b)?.won || 0) - (won.get(a)?.won || 0) || (a < b ? -1 : 1));
    update(who, h("h2", {}, "Who won"), h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Who won" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Cluster"), ...["Won", "Share", "Asked now", "Failed there", "Waited before, mean", ...(tells ? ["Quota held by losers", "Preempted by losers"] : [])].map((each) => h("th", { scope: "col", class: "num" }, each)))),
      h("tbody", {}, names.map((name) => { const sum = won.get(name) || { won: 0, failed: 0, waited: 0 }; return h("tr", {}, h("td", {}, link(`/workloads?cluster=${name}`, name)), ...[number(sum.won), all ? `${number(100 * sum.won / all)} %` : "", number(asked[name] || 0), number(sum.failed), sum.won ? span(sum.waited / sum.won) : "", ...(tells ? [figures[name] ? span(figures[name].wasted || 0) : "", figures[name] ? number(figures[name].preempted || 0) : ""] : [])].map((value) => h("td", { class: "num" }, value))); })))));
  };
  draw();
  return { update() { if (!timer) timer = setTimeout(draw, Math.max(0, due - performance.now())); }, query: draw, leave() { clearTimeout(timer); } };
}
