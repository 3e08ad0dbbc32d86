// State: the tables as lines, and how far indexing is while it is under way.
import { move, reload, shown } from "./page.js";

const color = (name) => {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
};

function draw(place) {
  const table = document.getElementById(place.dataset.table);
  if (!table || !globalThis.uPlot) return;
  const rows = [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
  if (rows.length < 2) return;
  const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  const times = rows.map(([day]) => Date.parse(day.length === 7 ? `${day}-01` : day) / 1000);
  const kept = [1, 2];
  const inks = [color("--accent"), color("--warn")];
  const axis = { stroke: color("--soft"), grid: { stroke: color("--line") }, ticks: { stroke: color("--line") } };
  place.replaceChildren();
  new globalThis.uPlot({
    width: Math.max(200, place.clientWidth),
    height: 180,
    legend: { live: false },
    axes: [axis, { ...axis, size: 56 }],
    series: [{}, ...kept.map((at, n) => ({ label: names[at], stroke: inks[n], width: 2, dash: n ? [6, 4] : undefined, points: { show: rows.length < 40 } }))],
  }, [times, ...kept.map((at) => rows.map((row) => Number(row[at])))], place);
}

const drawAll = () => document.querySelectorAll("[data-chart]").forEach(draw);
let resting = 0;
addEventListener("resize", () => { clearTimeout(resting); resting = setTimeout(drawAll, 200); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
if (document.readyState === "complete") shown(drawAll);
else addEventListener("load", () => shown(drawAll));
// A comparison with the disk is made once, not each time that something changes.
shown(() => {
  const without = new URLSearchParams(location.search);
  without.delete("look");
  move(location.pathname + (without.size ? `?${without}` : "") + location.hash);
});
setInterval(() => { if (!document.hidden && document.getElementById("progress")) reload(); }, 2000);
