// Buttons of whoever started the console, as those of the demo: for all, and for the cluster that is chosen.

import { ask, h } from "./dom.js";
import { live } from "./live.js";

const bar = document.getElementById("stage"), told = h("span", { class: "dim", role: "status" });
const choice = h("select", {}), general = h("span", { class: "filters" }), own = h("span", { class: "filters" });
const chooser = h("label", {}, "Cluster ", choice);
let drawn = "", known = "";

async function press({ name, title, is_of_cluster }) {
  const cluster = is_of_cluster ? choice.value : "";
  try {
    await ask(`/api/buttons/${name}`, { method: "POST", body: new URLSearchParams({ cluster }) });
    told.textContent = cluster ? `${title}: ${cluster}` : title;
  } catch (error) { told.textContent = error.message; }
}

const button = (each) => h("button", { type: "button", onclick: () => press(each) }, each.title);

export function drawStage() {
  const all = live.hello.buttons || [], clusters = (live.fleet?.clusters || []).map((each) => each.name);
  bar.hidden = !all.length;
  if (drawn !== JSON.stringify(all)) {
    drawn = JSON.stringify(all);
    general.replaceChildren(...all.filter((each) => !each.is_of_cluster).map(button));
    own.replaceChildren(chooser, ...all.filter((each) => each.is_of_cluster).map(button));
    bar.replaceChildren(h("b", {}, "Demo"), general, own, told);
  }
  if (known !== clusters.join()) {
    known = clusters.join();
    choice.replaceChildren(...clusters.map((each) => h("option", { value: each }, each)));
  }
  own.hidden = !clusters.length || !all.some((each) => each.is_of_cluster);
}
