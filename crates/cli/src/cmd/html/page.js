"use strict";
(() => {
const tip = document.getElementById("tip");
const axes = {};
let pinned = null;
const exact = n => n.toLocaleString("en");
const bytes = n => {
  let size = n, unit = 0;
  while (size >= 1024 && unit < 4) { size /= 1024; unit++; }
  const short = (unit ? size.toFixed(1) : size) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][unit];
  return unit ? short + " (" + exact(n) + " bytes)" : short;
};
const said = (n, unit) => unit === "b" ? bytes(n) : exact(n) + (unit ? " " + unit : "");
const axis = id => axes[id] ??= JSON.parse(document.getElementById(id).textContent);
// What a place of a plot says: its time, and the value of each series there.
const told = (plot, event) => {
  const box = plot.getBoundingClientRect(), x = axis(plot.dataset.x);
  const share = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 0.99999);
  const column = Math.floor(share * x.length);
  let series = [...plot.querySelectorAll("[data-v]")];
  if (plot.classList.contains("heat")) {
    const row = Math.floor((event.clientY - box.top) / box.height * series.length);
    series = [series[Math.min(Math.max(row, 0), series.length - 1)]];
  }
  document.documentElement.style.setProperty("--at", share * 100 + "%");
  const line = of => {
    const value = of.dataset.v.split(",")[column];
    return value === "" ? of.dataset.n + ": not known" : of.dataset.n + ": " + said(+value, of.dataset.u);
  };
  return [x[column] || "not known", ...series.map(line)].join("\n");
};
const show = (text, event) => {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect(), room = document.documentElement.clientWidth;
  tip.style.left = Math.max(4, Math.min(event.clientX + 12, room - box.width - 4)) + "px";
  const below = event.clientY + 16;
  tip.style.top = (below + box.height > innerHeight ? Math.max(4, event.clientY - box.height - 12) : below) + "px";
};
const at = event => event.target instanceof Element ? event.target.closest("[data-t],[data-x]") : null;
const look = event => {
  const of = at(event);
  if (of) show(of.dataset.t ?? told(of, event), event);
  else tip.hidden = true;
};
document.addEventListener("pointermove", event => { if (!pinned) look(event); });
// A click keeps what is said, and marks the row of the table that belongs to it.
document.addEventListener("click", event => {
  const of = at(event);
  document.querySelectorAll(".hit").forEach(row => row.classList.remove("hit"));
  if (!of || pinned) { pinned = null; tip.hidden = !of; if (!of) return; }
  look(event);
  pinned = of;
  const row = of.dataset.row && document.getElementById(of.dataset.row);
  if (row) { row.classList.add("hit"); row.closest("details")?.setAttribute("open", ""); }
});
document.addEventListener("scroll", () => { tip.hidden = true; pinned = null; }, { passive: true });
})();
