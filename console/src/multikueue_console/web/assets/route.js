// Where we are: the address says everything that a page shows.

const listeners = new Set();
export const onRoute = (listener) => listeners.add(listener);
export const query = () => Object.fromEntries(new URLSearchParams(location.search));

/** To another page by its path, or to another query of this one. */
export function go(where, isSmall = false) {
  let path = where;
  if (typeof where === "object") {
    const kept = Object.entries(where).filter(([, value]) => value);
    path = location.pathname + (kept.length ? `?${new URLSearchParams(kept)}` : "");
  }
  if (path === location.pathname + location.search) return;
  history[isSmall ? "replaceState" : "pushState"]({}, "", path);
  for (const each of listeners) each();
}

addEventListener("popstate", () => { for (const each of listeners) each(); });
