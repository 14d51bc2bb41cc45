// What the server tells: one stream, kept as rows by UID. Pages ask here and are told when something has changed.

import { setClock } from "./dom.js";

export const live = { rows: new Map(), fleet: null, fields: [], column: {}, state: "connecting", hello: {}, health: {}, whole: false, version: 0, expected: 0 };
const listeners = new Set();
let scheduled = false;
let source = null;
let fresh = null;

export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function changed() {
  live.version += 1;
  if (scheduled) return;
  scheduled = true;
  // Once in a frame; a hidden page is not painted, and has time.
  const soon = document.hidden ? (run) => setTimeout(run, 1000) : requestAnimationFrame;
  soon(() => { scheduled = false; for (const each of [...listeners]) each(); });
}

export function get(row, field) { return row[live.column[field]]; }

export function start() {
  source = new EventSource("/api/stream");
  const on = (name, take) => source.addEventListener(name, (event) => { take(JSON.parse(event.data)); changed(); });
  source.onopen = () => { live.state = "on"; changed(); };
  source.onerror = () => {
    live.state = "off"; changed();
    if (source.readyState === EventSource.CLOSED) setTimeout(start, 3000);
  };
  on("hello", (hello) => {
    live.hello = hello; live.fields = hello.fields; setClock(hello.now);
    hello.fields.forEach((name, at) => { live.column[name] = at; });
  });
  on("fleet", (fleet) => { live.fleet = fleet; });
  on("reset", (told) => { fresh = live.rows.size ? new Map() : null; live.expected = told.rows; if (!live.rows.size) live.whole = false; });
  on("rows", (rows) => { const into = fresh || live.rows; const uid = live.column.uid; for (const row of rows) into.set(row[uid], row); });
  on("gone", (uids) => { for (const uid of uids) live.rows.delete(uid); });
  on("whole", () => { if (fresh) live.rows = fresh; fresh = null; live.whole = true; live.health = {}; });
  on("calm", (told) => { live.health = told.health; });
  on("bye", () => { source.close(); location.reload(); });
}
