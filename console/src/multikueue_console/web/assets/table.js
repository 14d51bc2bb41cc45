// A table of any length: only the rows in sight are in the document.

import { h } from "./dom.js";

const HEIGHT = 36;
const MORE = 8;

/** `columns`: {name, title, width, num, cell(row)}; `open(row)`; `sort(name)`. Call `show(rows, sorted)` with what is to be seen. */
export function virtualTable({ label, columns, open, sort }) {
  const head = h("div", { class: "row", role: "row" });
  const body = h("div", { class: "tbody", role: "rowgroup" });
  const box = h("div", { class: "table", role: "table", "aria-label": label, tabindex: "0" }, h("div", { class: "thead", role: "rowgroup" }, head), body);
  const pool = [];
  let rows = [], shown = columns, active = -1, first = -1;

  function setColumns(names) {
    shown = columns.filter((each) => names.includes(each.name));
    const widths = shown.map((each) => each.width);
    box.style.setProperty("--cols", widths.join(" "));
    box.style.setProperty("--min", `${shown.reduce((sum, each) => sum + each.min, 0)}rem`);
    pool.splice(0).forEach((each) => each.remove());
    first = -1;
  }

  function header(sorted) {
    const name = sorted.replace(/^-/, "");
    const cells = shown.map((each) => h("div", { class: `cell${each.num ? " num" : ""}`, role: "columnheader", "aria-sort": each.name === name ? (sorted[0] === "-" ? "descending" : "ascending") : null },
      h("button", { type: "button", onclick: () => sort(each.name) }, each.title + (each.name === name ? (sorted[0] === "-" ? " ↓" : " ↑") : ""))));
    head.replaceChildren(...cells);
  }

  function make() {
    const row = h("div", { class: "row", role: "row" }, ...shown.map((each) => h("div", { class: `cell${each.num ? " num" : ""}`, role: "cell" })));
    row.addEventListener("click", (event) => { if (!event.target.closest("a") && !getSelection().toString()) open(rows[row.at]); });
    body.append(row);
    return row;
  }

  function paint() {
    const top = Math.max(0, Math.floor((box.scrollTop - 38) / HEIGHT) - MORE);
    const count = Math.min(rows.length - top, Math.ceil(box.clientHeight / HEIGHT) + 2 * MORE);
    body.style.height = `${rows.length * HEIGHT}px`;
    box.setAttribute("aria-rowcount", rows.length + 1);
    while (pool.length < count) pool.push(make());
    pool.forEach((element, at) => {
      element.hidden = at >= count;
      if (at >= count) return;
      const index = top + at, row = rows[index];
      element.at = index;
      element.style.transform = `translateY(${index * HEIGHT}px)`;
      element.setAttribute("aria-rowindex", index + 2);
      element.classList.toggle("active", index === active);
      shown.forEach((column, number) => {
        const cell = element.children[number], value = column.cell(row);
        if (value instanceof Node) { if (!cell.firstChild || !cell.firstChild.isEqualNode(value)) cell.replaceChildren(value); }
        else if (cell.textContent !== value) { cell.textContent = value; cell.title = value; }
      });
    });
    first = top;
  }

  box.addEventListener("scroll", () => requestAnimationFrame(paint), { passive: true });
  box.addEventListener("keydown", (event) => {
    const page = Math.floor(box.clientHeight / HEIGHT) - 2;
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -rows.length, End: rows.length }[event.key];
    if (step !== undefined && !event.ctrlKey && !event.metaKey) {
      active = Math.max(0, Math.min(rows.length - 1, active + step));
      const at = active * HEIGHT;
      if (at < box.scrollTop) box.scrollTop = at;
      if (at + HEIGHT + 40 > box.scrollTop + box.clientHeight) box.scrollTop = at + 2 * HEIGHT + 40 - box.clientHeight;
      paint(); event.preventDefault();
    }
    if (event.key === "Enter" && active >= 0 && rows[active] && event.target === box) open(rows[active]);
  });
  new ResizeObserver(() => paint()).observe(box);

  return {
    element: box,
    setColumns,
    show(all, sorted) { rows = all; active = Math.min(active, rows.length - 1); header(sorted); paint(); },
    repaint: paint,
    visible: () => rows.slice(Math.max(0, first), Math.max(0, first) + pool.length),
  };
}
