// The frame: pages by path, keys, theme, and whether the stream is alive.

import { ask, h, link } from "./dom.js";
import { live, onChange, start } from "./live.js";
import { go, onRoute, query } from "./route.js";
import { overviewPage } from "./overview.js";
import { queuePage, queuesPage } from "./queues.js";
import { workloadsPage } from "./workloads.js";
import { workloadPage } from "./workload.js";
import { clustersPage } from "./clusters.js";
import { drawStage } from "./stage.js";
import { peoplePage, strategiesPage } from "./people.js";

const PAGES = [["/", "Overview", "o"], ["/queues", "Queues", "q"], ["/workloads", "Workloads", "w"], ["/clusters", "Clusters", "c"], ["/strategies", "Strategies", "s"], ["/people", "People", "p"]];
const main = document.getElementById("main"), nav = document.getElementById("nav"), status = document.getElementById("live"), search = document.getElementById("q"), leave = document.getElementById("leave");
let page = null, path = "";

function open() {
  const [, room, ...rest] = location.pathname.split("/").map(decodeURIComponent);
  if (path === location.pathname && page?.query) { page.query(); return; }
  const isFirst = path === "";
  page?.leave();
  path = location.pathname;
  main.replaceChildren();
  const title = PAGES.find(([each]) => each === `/${room}`)?.[1] || "Overview";
  document.title = `${rest.length ? rest[rest.length - 1] : title} · multikueue`;
  page = room === "queues" ? (rest[0] ? queuePage(main, rest[0]) : queuesPage(main)) : room === "workloads" ? (rest[1] ? workloadPage(main, rest[0], rest[1]) : workloadsPage(main))
    : room === "clusters" ? clustersPage(main) : room === "strategies" ? strategiesPage(main) : room === "people" ? peoplePage(main) : overviewPage(main);
  nav.replaceChildren(...PAGES.map(([href, name]) => { const each = link(href, name); if (href === `/${room}`) each.setAttribute("aria-current", "page"); return each; }));
  if (!isFirst) { main.focus({ preventScroll: true }); scrollTo(0, 0); }
}

function tell() {
  leave.hidden = !live.hello.person;
  leave.title = live.hello.person || "";
  const words = { on: live.whole ? "Live" : "Reading", off: "Away: trying again", connecting: "Connecting" }[live.state];
  if (status.lastElementChild.textContent !== words) { status.lastElementChild.textContent = words; status.className = `live ${live.state}`; status.title = words; }
}

document.addEventListener("click", (event) => {
  const copy = event.target.closest("[data-copy]");
  if (copy) { navigator.clipboard?.writeText(copy.dataset.copy).then(() => { copy.textContent = "Copied"; setTimeout(() => { copy.textContent = "Copy"; }, 1500); }); return; }
  const act = event.target.closest("[data-act]");
  if (act) { confirm_(act.dataset); return; }
  const anchor = event.target.closest("a[data-link]");
  if (!anchor || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go(anchor.getAttribute("href"));
});

document.getElementById("search").addEventListener("submit", (event) => { event.preventDefault(); go(`/workloads?${new URLSearchParams({ q: search.value })}`); });
search.addEventListener("input", () => { if (location.pathname === "/workloads") go({ ...query(), q: search.value }, true); });
document.getElementById("theme").addEventListener("click", () => {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("theme", next); document.documentElement.dataset.theme = next;
});

const keys = document.getElementById("keys");
keys.append(h("h2", { id: "keys-title" }, "Keys"), h("p", {}, " "), h("dl", { class: "facts" }, [["/", "find a workload"], ["g, then o q w c s p", "to a page"], ["j k, arrows, Enter", "through a table, and open"], ["t", "light or dark"], ["?", "this"], ["Esc", "back"]].map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])), h("p", {}, " "), h("form", { method: "dialog" }, h("button", { class: "primary" }, "Close")));
document.getElementById("help").addEventListener("click", () => keys.showModal());

const sure = document.getElementById("sure");
function confirm_({ act, says, about, asks }) {
  const told = h("p", { role: "alert" }), word = asks ? h("input", { type: "text", maxlength: 253, autocomplete: "off" }) : null;
  const go_ = h("button", { type: "button", class: "primary", onclick: async () => {
    go_.disabled = true;
    try { await ask(act, { method: "POST", body: new URLSearchParams(word ? { word: word.value } : {}) }); sure.close(); } catch (error) { told.textContent = `Refused: ${error.message}`; go_.disabled = false; }
  } }, "Do it");
  const effect = h("p", { role: "status" }, "…");
  ask(`${act}/effect`).then(async (answer) => { effect.textContent = (await answer.json()).effect; }, (error) => { effect.textContent = error.message; });
  sure.replaceChildren(h("div", { class: "stack" }, h("h2", { id: "sure-title" }, about), effect, h("p", { class: "dim" }, says), word ? h("label", {}, asks, " ", word) : null, told, h("div", { class: "filters" }, go_, h("button", { type: "button", onclick: () => sure.close() }, "Leave it"))));
  sure.showModal();
}

let isGoing = 0;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) { if (event.key === "Escape") event.target.blur?.(); return; }
  const target = Date.now() - isGoing < 1200 && PAGES.find(([, , key]) => key === event.key);
  isGoing = event.key === "g" ? Date.now() : 0;
  if (target) go(target[0]);
  else if (event.key === "/") { event.preventDefault(); search.focus(); search.select(); }
  else if (event.key === "?") keys.showModal();
  else if (event.key === "t") document.getElementById("theme").click();
});

onRoute(open);
onChange(() => { tell(); drawStage(); page?.update(); });
start();
open();
