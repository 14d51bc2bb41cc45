// Elements, and how values are written.

const SVG = "http://www.w3.org/2000/svg";

export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function s(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Replace the children only when they differ, so that focus and selection stay where they are. */
export function update(parent, ...children) {
  const wanted = children.flat(3).filter((child) => child !== null && child !== undefined && child !== false);
  const old = [...parent.childNodes];
  wanted.forEach((child, at) => {
    if (!old[at]) parent.append(child);
    else if (!same(old[at], child)) old[at].replaceWith(child);
  });
  old.slice(wanted.length).forEach((each) => each.remove());
}

function same(one, other) {
  return one.isEqualNode ? one.isEqualNode(other) : one.textContent === String(other);
}

export function badge(state, text = state) {
  return h("span", { class: `badge t-${state}` }, text);
}

/** A button for a change, which says first what will happen; nothing where changes are switched off. */
export function action(act, name, path, about) {
  if (!act) return null;
  return h("button", { type: "button", "data-act": path, "data-says": act.says, "data-asks": act.asks || null, "data-about": `${name[0].toUpperCase()}${name.slice(1)} ${about}?` }, `${name[0].toUpperCase()}${name.slice(1)} …`);
}

export function link(href, ...children) {
  return h("a", { href, "data-link": true }, ...children);
}

export function command(text) {
  return h("span", { class: "cmd" }, h("code", {}, text), h("button", { type: "button", "data-copy": text, "aria-label": `Copy ${text}` }, "Copy"));
}

/** A name of that length at most: cut in the middle, as names often differ at their end. */
export function cut(name, most) {
  return name.length > most ? `${name.slice(0, most - 9)}…${name.slice(-8)}` : name;
}

/** Names after a few words. Where there is no room for all, each loses the middle; its title is the whole. */
export function names(all, before = "") {
  const parts = all.flatMap((name, at) => {
    const most = name.length > 9 ? name.length - 8 : 0;
    return [most ? h("span", { class: "start" }, name.slice(0, most)) : null, h("span", {}, `${name.slice(most)}${at < all.length - 1 ? ", " : ""}`)];
  });
  return h("span", { class: "names", title: `${before}${all.join(", ")}` }, before, parts);
}

const UNITS = [["Pi", 2 ** 50], ["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20], ["Ki", 2 ** 10]];

export function amount(resource, value) {
  if (resource === "cpu") return number(value / 1000);
  if (resource === "memory" || resource === "ephemeral-storage") {
    const [unit, size] = UNITS.find(([, each]) => value >= each) || ["", 1];
    return `${number(value / size)}${unit}`;
  }
  return number(value);
}

export function amounts(all) {
  return Object.entries(all).map(([name, value]) => `${amount(name, value)} ${short(name)}`).join(" · ");
}

export function short(resource) {
  return resource.includes("/") ? resource.split("/").pop() : resource;
}

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export function number(value) {
  return plain.format(value);
}

export function span(seconds) {
  const all = Math.max(0, Math.floor(seconds));
  const [d, hours, m, sec] = [Math.floor(all / 86400), Math.floor(all / 3600) % 24, Math.floor(all / 60) % 60, all % 60];
  if (d) return hours ? `${d}d ${hours}h` : `${d}d`;
  if (hours) return m ? `${hours}h ${m}m` : `${hours}h`;
  return m ? (m < 10 && sec ? `${m}m ${sec}s` : `${m}m`) : `${sec}s`;
}

let ahead = 0;
/** Take the server's clock, in seconds: ages must not depend on this machine's. */
export function setClock(now) { ahead = now - Date.now() / 1000; }
export function now() { return Date.now() / 1000 + ahead; }
export function ago(at) { return at ? span(now() - at) : ""; }

/** When a job starts in four of five cases; nothing where no estimate was made. */
export function starting(range) {
  if (range === undefined) return "";
  if (range === null) return "unknown";
  const [low, high] = range.map((at) => Math.max(0, at - now()));
  if (high < 60) return "in about a minute";
  const [size, unit] = high < 5400 ? [60, "min"] : high < 172800 ? [3600, "h"] : [86400, "d"];
  const [from, to] = [Math.floor(low / size), Math.ceil(high / size)];
  return from === to ? `in about ${to} ${unit}` : `in about ${from} to ${to} ${unit}`;
}

const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
export function when(at) { return at ? full.format(at * 1000) : ""; }
export function time(at) { return at ? clock.format(at * 1000) : ""; }
/** Seconds of a time as the server writes it in documents. */
export function seconds(text) { return text ? Date.parse(text) / 1000 : 0; }

/** A sentence of the server with its times in the zone of who reads. */
export function local(text) {
  return text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, (each) => when(seconds(each)));
}

export async function ask(path, options) {
  const answer = await fetch(path, { credentials: "same-origin", ...options });
  if (answer.ok) return answer;
  let why = answer.statusText;
  try { why = (await answer.json()).error || why; } catch { /* it was no JSON */ }
  throw new Error(why);
}
