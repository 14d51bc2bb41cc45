// Clusters: whether each can be used, and what is there.

import { action, ago, amounts, badge, command, h, link, local, number, s, update, when } from "./dom.js";
import { live } from "./live.js";
import { query } from "./route.js";
import { problems } from "./overview.js";
import { bar } from "./queues.js";

export function clustersPage(main) {
  const cards = h("div", { class: "grid" }), title = h("span", { class: "dim", role: "status" }), causes = h("section", { class: "card stack", "aria-labelledby": "causes-title" });
  main.append(h("div", { class: "head" }, h("h1", {}, "Clusters"), title), causes, cards);
  const draw = () => {
    if (!live.fleet) return;
    const wanted = (query().q || "").toLowerCase();
    const all = live.fleet.clusters.filter((each) => each.name.toLowerCase().includes(wanted));
    const usable = all.filter((each) => each.state === "Active").length;
    title.textContent = all.length ? `${usable} of ${all.length} can be used` : "";
    update(cards, all.map((each) => card(each)), all.length ? null : h("p", { class: "empty" }, "No cluster that you may see."));
    const names = new Set(all.map((each) => each.name));
    causes.hidden = !all.length;
    update(causes, findings(live.fleet.findings.filter((each) => each.clusters.some((name) => names.has(name)))));
  };
  draw();
  return { update: draw, query: draw, leave() {} };
}

/** What the doctor finds, as far as the manager cluster tells it. */
function findings(all) {
  return [h("h2", { id: "causes-title" }, "What is wrong with clusters, by cause"),
    all.length ? h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Findings by cause" }, h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, ["Result", "Check", "Clusters", "Detail", "What helps"].map((each) => h("th", { scope: "col" }, each)))),
      h("tbody", {}, all.map((each) => h("tr", {}, h("td", {}, badge(each.level === "failed" ? "Failed" : "warning", each.level)), h("td", {}, each.subject),
        h("td", {}, each.clusters.slice(0, 5).map((name, at) => [at ? ", " : "", link(`/clusters?q=${encodeURIComponent(name)}`, name)]), each.clusters.length > 5 ? ` and ${each.clusters.length - 5} more` : ""),
        h("td", {}, local(each.detail)), h("td", {}, each.repair)))))) : h("p", { class: "dim" }, "Nothing, as far as the manager cluster tells."),
    h("p", { class: "repair" }, "To ask the clusters themselves: ", command("multikueue doctor"))];
}

function room(told) {
  if (!told.room) return null;
  return h("div", { class: "room" }, h("h3", {}, "Room"), told.room.length ? told.room.map((each) => bar({ ...each, borrowed: Math.max(0, each.used - each.nominal), lent: 0 })) : h("p", { class: "dim" }, "Not known: no strategy of the manager reads it."));
}

function turn(each) {
  const acts = live.hello.actions;
  return acts?.drain && each.state !== "Gone" ? h("div", { class: "filters" }, [each.is_cordoned ? "uncordon" : "cordon", "drain"].map((name) => action(acts[name], name, `/api/clusters/${each.name}/${name}`, each.name))) : null;
}

function card(each) {
  const load = each.load, sum = load.running + load.starting + load.racing || 1;
  const told = each.figures || {};
  const facts = { "Kueue": told.release, "Reached": told.reach === "connected" ? "" : told.reach, "Answers in": told.latency ? `${number(told.latency)} ms` : "", "Writes at a time": each.figures && told.reach === "connected" ? number(told.concurrency || 0) : "", "Credential ends": told.expires ? when(told.expires) : "", "Why": each.reason, "Told": each.notes.join("; "), "Runs": number(load.running), "Starts": number(load.starting), "Asked": number(load.racing), "Done": number(load.done), "Failed": number(load.failed), "Quota in use": amounts(load.amounts) || "none", "In": each.configs && (each.configs.join(", ") || "no MultiKueueConfig"), "Prices": Object.entries(each.prices).map(([name, price]) => `${name} ${price}/h`).join(", ") };
  const part = (kind, from, many) => s("rect", { class: kind, x: 100 * from / sum, y: 0, width: 100 * many / sum, height: 6 });
  const own = live.fleet.problems.filter((one) => one.about === `cluster/${each.name}`);
  return h("article", { class: "card stack" }, h("div", { class: "head" }, h("h2", {}, link(`/workloads?cluster=${each.name}`, each.name)), badge(each.state), each.since ? h("span", { class: "dim" }, `for ${ago(each.since)}`) : null),
    s("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", class: "split", role: "img", "aria-label": `${load.running} run, ${load.starting} start, ${load.racing} asked` }, part("running", 0, load.running), part("starting", load.running, load.starting), part("racing", load.running + load.starting, load.racing)),
    h("dl", { class: "facts" }, Object.entries(facts).filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])), room(told), own.length ? problems(own) : null, turn(each));
}
