// Clusters: whether each can be used, and what is there.

import { action, ago, amounts, badge, h, link, number, s, update, when } from "./dom.js";
import { live } from "./live.js";
import { query } from "./route.js";
import { problems } from "./overview.js";

export function clustersPage(main) {
  const cards = h("div", { class: "grid" }), title = h("span", { class: "dim", role: "status" });
  main.append(h("div", { class: "head" }, h("h1", {}, "Clusters"), title), cards);
  const draw = () => {
    if (!live.fleet) return;
    const wanted = (query().q || "").toLowerCase();
    const all = live.fleet.clusters.filter((each) => each.name.toLowerCase().includes(wanted));
    const usable = all.filter((each) => each.state === "Active").length;
    title.textContent = all.length ? `${usable} of ${all.length} can be used` : "";
    update(cards, all.map((each) => card(each)), all.length ? null : h("p", { class: "empty" }, "No cluster that you may see."));
  };
  draw();
  return { update: draw, query: draw, leave() {} };
}

function turn(each) {
  const acts = live.hello.actions;
  return acts?.drain && each.state !== "Gone" ? h("div", { class: "filters" }, [each.is_cordoned ? "uncordon" : "cordon", "drain"].map((name) => action(acts[name], name, `/api/clusters/${each.name}/${name}`, each.name))) : null;
}

function card(each) {
  const load = each.load, sum = load.running + load.starting + load.racing || 1;
  const told = each.figures || {};
  const facts = { "Reached": told.reach === "connected" ? "" : told.reach, "Answers in": told.latency ? `${number(told.latency)} ms` : "", "Writes at a time": each.figures && told.reach === "connected" ? number(told.concurrency || 0) : "", "Credential ends": told.expires ? when(told.expires) : "", "Why": each.reason, "Told": each.notes.join("; "), "Runs": number(load.running), "Starts": number(load.starting), "Asked": number(load.racing), "Done": number(load.done), "Failed": number(load.failed), "Quota in use": amounts(load.amounts) || "none", "In": each.configs.join(", ") || "no MultiKueueConfig", "Prices": Object.entries(each.prices).map(([name, price]) => `${name} ${price}/h`).join(", ") };
  const part = (kind, from, many) => s("rect", { class: kind, x: 100 * from / sum, y: 0, width: 100 * many / sum, height: 6 });
  const own = live.fleet.problems.filter((one) => one.about === `cluster/${each.name}`);
  return h("article", { class: "card stack" }, h("div", { class: "head" }, h("h2", {}, link(`/workloads?cluster=${each.name}`, each.name)), badge(each.state), each.since ? h("span", { class: "dim" }, `for ${ago(each.since)}`) : null),
    s("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", class: "split", role: "img", "aria-label": `${load.running} run, ${load.starting} start, ${load.racing} asked` }, part("running", 0, load.running), part("starting", load.running, load.starting), part("racing", load.running + load.starting, load.racing)),
    h("dl", { class: "facts" }, Object.entries(facts).filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])), own.length ? problems(own) : null, turn(each));
}
