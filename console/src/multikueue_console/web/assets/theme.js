// The theme before the first paint: what was chosen here, else what the system wants.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const show = () => { document.documentElement.dataset.theme = localStorage.getItem("theme") || (system.matches ? "dark" : "light"); };
  system.addEventListener("change", show);
  show();
})();
