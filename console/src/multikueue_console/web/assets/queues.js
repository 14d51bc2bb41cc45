// Queues: the tree of cohorts with what each has, uses, borrows and lends; and the line of one queue.

import { ago, amount, ask, badge, h, link, number, s, short, update } from "./dom.js";
import { get, live } from "./live.js";
import { href } from "./workloads.js";

/** What there is of one resource of one flavor. `free` is told where it is not simply the rest. */
export function bar(each) {
  const own = each.used - each.borrowed, size = Math.max(each.nominal, each.used, 1);
  const part = (kind, from, many) => (many > 0 ? s("rect", { class: kind, x: 1000 * from / size, y: 0, width: 1000 * many / size, height: 10 }) : null);
  const words = `${amount(each.resource, each.used)} of ${amount(each.resource, each.nominal)} ${short(each.resource)}`;
  const more = [each.borrowed ? `${amount(each.resource, each.borrowed)} borrowed` : "", each.lent ? `${amount(each.resource, each.lent)} lent` : "", each.free === undefined ? "" : `${amount(each.resource, each.free)} free`].filter(Boolean).join(", ");
  return h("div", { class: "bar" }, h("span", { class: "name", title: `${each.flavor} · ${each.resource}` }, `${each.flavor} · ${short(each.resource)}`),
    s("svg", { viewBox: "0 0 1000 10", preserveAspectRatio: "none", role: "img", "aria-label": `${each.flavor}: ${words}${more ? `, ${more}` : ""}` },
      part("used", 0, own), part("borrowed", own, each.borrowed), part("lent", Math.max(each.nominal - each.lent, own), each.lent),
      each.used > each.nominal ? s("line", { x1: 1000 * each.nominal / size, x2: 1000 * each.nominal / size, y1: 0, y2: 10 }) : null),
    h("span", { class: "figure" }, words, more ? h("span", { class: "dim" }, ` · ${more}`) : null));
}

const legend = () => h("div", { class: "legend" }, h("span", { class: "c-used" }, h("i"), "used of its own"), h("span", { class: "c-borrowed" }, h("i"), "borrowed"), h("span", { class: "c-lent" }, h("i"), "lent to others"), h("span", { class: "c-free" }, h("i"), "free"));

function queue(each, heading = true) {
  return h("div", { class: "q" }, heading ? h("div", { class: "qhead" }, link(`/queues/${encodeURIComponent(each.name)}`, each.name), each.is_held ? badge("Held") : each.problem ? badge("Failed", "Not active") : null,
    h("span", { class: "dim" }, `${number(each.pending)} wait · ${number(each.reserving)} have quota · ${number(each.admitted)} admitted`)) : null, each.problem ? h("p", { class: "dim" }, each.problem) : null, each.bars.map(bar));
}

function cohort(each) {
  if (!each.name) return each.queues.map((one) => h("section", { class: "card" }, queue(one)));
  const inner = (node) => [node.queues.map((one) => h("li", {}, queue(one))), node.cohorts.map((one) => h("li", {}, h("div", { class: "q" }, h("div", { class: "qhead" }, h("b", {}, one.name), h("span", { class: "dim" }, "cohort")), one.bars.map(bar)), h("ul", { class: "tree" }, inner(one))))];
  return h("section", { class: "card" }, h("div", { class: "q" }, h("div", { class: "qhead" }, h("h2", {}, each.name), h("span", { class: "dim" }, `cohort of ${each.queues.length} queues${each.cohorts.length ? ` and ${each.cohorts.length} cohorts` : ""}`)), each.bars.map(bar)), h("ul", { class: "tree" }, inner(each)));
}

export function queuesPage(main) {
  const trees = h("div", { class: "tree" }), local = h("section", { class: "card" });
  main.append(h("div", { class: "head" }, h("h1", {}, "Queues"), legend()), trees, local);
  const draw = () => {
    if (!live.fleet) return;
    update(trees, live.fleet.trees.map(cohort));
    update(local, h("h2", {}, "LocalQueues"), live.fleet.local.length ? h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "LocalQueues" }, h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, ...["Namespace", "Queue", "ClusterQueue", "State"].map((each) => h("th", { scope: "col" }, each)), ...["Wait", "Have quota", "Admitted"].map((each) => h("th", { scope: "col", class: "num" }, each)))),
      h("tbody", {}, live.fleet.local.slice(0, 500).map((each) => h("tr", {}, h("td", {}, each.namespace), h("td", {}, link(`/workloads?namespace=${each.namespace}&queue=${each.name}`, each.name)), h("td", {}, link(`/queues/${each.cluster_queue}`, each.cluster_queue)),
        h("td", {}, each.is_held ? badge("Held") : each.problem ? badge("Failed", "Not active") : badge("Active")), ...[each.pending, each.reserving, each.admitted].map((value) => h("td", { class: "num" }, number(value)))))))) : h("p", { class: "dim" }, "None that you may see."));
  };
  draw();
  return { update: draw, leave() {} };
}

const flat = (trees) => trees.flatMap((each) => [...each.queues, ...flat(each.cohorts)]);

export function queuePage(main, name) {
  const facts = h("section", { class: "card stack" }), line = h("section", { class: "card" });
  main.append(h("div", { class: "head" }, h("h1", {}, name), h("span", { class: "dim" }, "ClusterQueue"), link(`/workloads?state=Pending&sort=place`, "all that wait")), facts, line);
  let most = 100, at = -Infinity;
  update(line, h("h2", {}, "The line"), h("p", { class: "dim" }, "Reading …"));
  const draw = () => {
    const found = live.fleet && flat(live.fleet.trees).find((each) => each.name === name);
    update(facts, found ? [h("h2", {}, found.cohort ? `Quota, in cohort ${found.cohort}` : "Quota"), queue(found), h("p", { class: "dim" }, [found.order, found.checks.length ? `checks: ${found.checks.join(", ")}` : "no admission check", found.strategy ? `strategy: ${found.strategy}` : ""].filter(Boolean).join(" · ")), legend()] : h("p", { class: "dim" }, "Its quota is not for you to see."));
    if (live.whole && performance.now() - at > 1200) look();
  };
  async function look() {
    at = performance.now();
    try {
      const told = await (await ask(`/api/queues/${encodeURIComponent(name)}/line?limit=${most}`)).json();
      const rows = told.items.map((each) => [each, each.uid && live.rows.get(each.uid)]);
      update(line, h("h2", {}, `The line: ${number(told.length)} wait`), told.length ? h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "The line" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "num" }, "Place"), ...["Workload", "Namespace", "Priority", "Waits for", "Why"].map((each) => h("th", { scope: "col" }, each)))),
        h("tbody", {}, rows.map(([each, row]) => h("tr", {}, h("td", { class: "num" }, String(each.place)), row ? [h("td", {}, link(href(row), get(row, "name"))), h("td", {}, get(row, "namespace")), h("td", {}, String(get(row, "priority"))), h("td", { class: "nowrap" }, ago(get(row, "since"))), h("td", {}, get(row, "reason"))] : h("td", { colspan: 5, class: "dim" }, "a workload of others")))))) : h("p", { class: "dim" }, "Nobody waits here."),
        told.length > most ? h("button", { type: "button", onclick: () => { most += 200; look(); } }, "Show more") : null);
    } catch (error) { update(line, h("p", { class: "dim" }, error.message)); }
  }
  const timer = setInterval(() => live.whole && look(), 2000);
  draw();
  return { update: draw, leave() { clearInterval(timer); } };
}
