// The map: notes as points, links as lines, on one canvas. The lists below it say the same in words.
import { move, onChange, shown } from "./page.js";

const INKS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a7f00"];
const LABELS = 40;
const [LEAST, MOST] = [0.5, 60]; // how far one can zoom
const STILL = 250; // milliseconds until what is seen goes into the address
const CELL = 40; // pixels of the grid in which points are looked up

let map = null; // what is drawn: one at a time

function resolved(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

class NoteMap {
  constructor(canvas, data, before) {
    this.canvas = canvas;
    this.data = data;
    this.notes = data.notes.map((note, at) => ({ ...note, at })).filter((note) => note.x !== null);
    this.byAt = new Map(this.notes.map((note) => [note.at, note]));
    const [x, y, scale] = canvas.dataset.view ? canvas.dataset.view.split(",").map(Number) : [0, 0, 1];
    this.scale = before?.scale ?? Math.min(MOST, Math.max(LEAST, scale));
    this.middle = before?.middle ?? [x, y];
    this.paint();
    this.layers = () => Object.fromEntries([...document.querySelectorAll("[data-layer]")].map((each) => [each.dataset.layer, each.checked]));
  }

  paint() {
    const forced = matchMedia("(forced-colors: active)").matches;
    this.inks = forced ? INKS.map(() => "CanvasText") : INKS;
    this.soft = forced ? "GrayText" : resolved("--soft");
    this.ink = forced ? "CanvasText" : resolved("--ink");
    this.accent = forced ? "Highlight" : resolved("--accent");
    this.warn = forced ? "Highlight" : resolved("--warn");
    this.ground = forced ? "Canvas" : resolved("--raised");
  }

  place([x, y]) {
    const size = Math.min(this.width, this.height) * 0.47 * this.scale;
    return [this.width / 2 + (x - this.middle[0]) * size * this.stretch, this.height / 2 + (y - this.middle[1]) * size];
  }

  radius(note) {
    return 2.5 + Math.min(9, Math.sqrt(note.backlinks) * 1.6);
  }

  draw() {
    const began = performance.now();
    const { canvas } = this;
    const ratio = devicePixelRatio || 1;
    this.width = canvas.clientWidth;
    this.height = canvas.clientHeight;
    this.stretch = Math.min(1.8, Math.max(0.55, this.width / this.height));
    canvas.width = Math.round(this.width * ratio);
    canvas.height = Math.round(this.height * ratio);
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = this.ground;
    pen.fillRect(0, 0, this.width, this.height);
    const layers = this.layers();
    const at = new Map(this.notes.map((note) => [note.at, this.place([note.x, note.y])]));
    this.points = at;
    if (layers.links) this.lines(pen, at, this.data.links, this.soft, [], 0.25);
    if (layers.near) this.lines(pen, at, this.data.near.slice(0, Number(this.canvas.dataset.near)).map((pair) => [pair.first, pair.second]), this.warn, [5, 4], 0.8);
    const anyLit = this.notes.some((note) => note.lit);
    for (const note of this.notes) this.dot(pen, note, at.get(note.at), layers, anyLit);
    if (layers.labels) this.labels(pen, at);
    this.grid(at);
    canvas.dataset.drawn = (performance.now() - began).toFixed(1);
  }

  lines(pen, at, pairs, color, dash, alpha) {
    pen.globalAlpha = alpha;
    pen.strokeStyle = color;
    pen.lineWidth = dash.length ? 1.3 : 0.8;
    pen.setLineDash(dash);
    pen.beginPath();
    for (const [from, to] of pairs) {
      const [a, b] = [at.get(from), at.get(to)];
      if (a && b) { pen.moveTo(a[0], a[1]); pen.lineTo(b[0], b[1]); }
    }
    pen.stroke();
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  }

  dot(pen, note, [x, y], layers, anyLit) {
    if (x < -20 || y < -20 || x > this.width + 20 || y > this.height + 20) return;
    const size = this.radius(note);
    pen.globalAlpha = anyLit && !note.lit ? 0.25 : 0.9;
    pen.fillStyle = note.group < 0 ? this.soft : this.inks[note.group % this.inks.length];
    pen.beginPath();
    if (note.group < 0 || note.group % 3 === 0) pen.arc(x, y, size, 0, 7);
    else if (note.group % 3 === 1) pen.rect(x - size * 0.9, y - size * 0.9, size * 1.8, size * 1.8);
    else { pen.moveTo(x, y - size * 1.1); pen.lineTo(x + size, y + size * 0.9); pen.lineTo(x - size, y + size * 0.9); pen.closePath(); }
    pen.fill();
    if (note.lit || note === this.over || (layers.orphans && !note.backlinks)) {
      pen.strokeStyle = note.lit || note === this.over ? this.accent : this.warn;
      pen.lineWidth = note.lit || note === this.over ? 3 : 1;
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  labels(pen, at) {
    const taken = [];
    pen.font = "12px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.lineJoin = "round";
    const wanted = [...this.notes].sort((a, b) => Number(b.lit) - Number(a.lit) || b.backlinks - a.backlinks).slice(0, LABELS * 4);
    let count = 0;
    for (const note of wanted) {
      if (count >= LABELS) break;
      const [x, y] = at.get(note.at);
      if (x < 0 || y < 0 || x > this.width || y > this.height) continue;
      const text = note.title.length > 28 ? `${note.title.slice(0, 27)}…` : note.title;
      const half = text.length * 3.4;
      const box = [x - half, y - this.radius(note) - 16, x + half, y - this.radius(note) - 2];
      if (taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1])) continue;
      taken.push(box);
      count += 1;
      pen.strokeStyle = this.ground;
      pen.lineWidth = 3;
      pen.strokeText(text, x, box[3] - 2);
      pen.fillStyle = this.ink;
      pen.fillText(text, x, box[3] - 2);
    }
  }

  grid(at) {
    this.cells = new Map();
    for (const note of this.notes) {
      const [x, y] = at.get(note.at);
      const key = `${Math.floor(x / CELL)},${Math.floor(y / CELL)}`;
      if (!this.cells.has(key)) this.cells.set(key, []);
      this.cells.get(key).push(note);
    }
  }

  nearest(x, y) {
    let best = null;
    let least = 14 ** 2;
    for (let dx = -1; dx <= 1; dx += 1) {
      for (let dy = -1; dy <= 1; dy += 1) {
        for (const note of this.cells.get(`${Math.floor(x / CELL) + dx},${Math.floor(y / CELL) + dy}`) ?? []) {
          const [a, b] = this.points.get(note.at);
          const distance = (a - x) ** 2 + (b - y) ** 2;
          if (distance < least) { best = note; least = distance; }
        }
      }
    }
    return best;
  }

  zoom(by, x = this.width / 2, y = this.height / 2) {
    if (!by) { this.scale = 1; this.middle = [0, 0]; this.keep(); return this.draw(); }
    const size = Math.min(this.width, this.height) * 0.47 * this.scale;
    const under = [this.middle[0] + (x - this.width / 2) / (size * this.stretch), this.middle[1] + (y - this.height / 2) / size];
    const next = Math.min(MOST, Math.max(LEAST, this.scale * by));
    const share = this.scale / next;
    this.middle = under.map((each, n) => each - (each - this.middle[n]) * share);
    this.scale = next;
    this.keep();
    return this.draw();
  }

  pan(dx, dy) {
    const size = Math.min(this.width, this.height) * 0.47 * this.scale;
    this.middle = [this.middle[0] - dx / (size * this.stretch), this.middle[1] - dy / size];
    this.keep();
    this.draw();
  }

  /** Say in the address what part of the map is seen, once it moves no more. */
  keep() {
    clearTimeout(this.still);
    this.still = setTimeout(() => {
      const isAll = this.scale === 1 && !this.middle[0] && !this.middle[1];
      write({ view: isAll ? [] : [[...this.middle, this.scale].map((each) => Number(each.toFixed(4))).join(",")] });
    }, STILL);
  }

  hover(x, y) {
    const note = this.nearest(x, y);
    const words = document.getElementById("hover");
    this.canvas.style.cursor = note ? "pointer" : "grab";
    words.hidden = !note;
    if (note) {
      words.textContent = `${note.title} - ${note.path}`;
      words.style.left = `${Math.min(x + 12, this.width * 0.6)}px`;
      words.style.top = `${y + 12}px`;
    }
    if (note !== this.over) { this.over = note; this.draw(); }
  }
}

/** Give values to an address: what is empty is left out. */
function change(address, values) {
  const there = new URL(address);
  for (const [name, all] of Object.entries(values)) {
    there.searchParams.delete(name);
    for (const each of all) if (each) there.searchParams.append(name, each);
  }
  return there;
}

/** Give values to the address of the screen, and to links to its lists. */
function write(values) {
  move(change(location.href, values));
  // Links to another folder's map lead to all of it.
  for (const each of document.querySelectorAll("#main a[href^='/map']:not([aria-label=Folders] a)")) each.href = change(each.href, values);
}

function listen(canvas) {
  let held = null;
  let moved = 0;
  const where = (event) => { const at = canvas.getBoundingClientRect(); return [event.clientX - at.left, event.clientY - at.top]; };
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); map.zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15, ...where(event)); }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => { held = where(event); moved = 0; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    const at = where(event);
    if (!held) return map.hover(...at);
    moved += Math.abs(at[0] - held[0]) + Math.abs(at[1] - held[1]);
    map.pan(at[0] - held[0], at[1] - held[1]);
    held = at;
    return undefined;
  });
  canvas.addEventListener("pointerup", (event) => {
    const note = moved < 4 ? map.nearest(...where(event)) : null;
    held = null;
    if (note) location.assign(note.address);
  });
  canvas.addEventListener("pointerleave", () => { if (!held) map.hover(-1000, -1000); });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] }[event.key];
    if (step) map.pan(...step);
    else if (event.key === "+" || event.key === "=") map.zoom(1.3);
    else if (event.key === "-") map.zoom(1 / 1.3);
    else if (event.key === "0") map.zoom(0);
    else return;
    event.preventDefault();
  });
}

async function begin() {
  const canvas = document.getElementById("map");
  if (!canvas) return;
  const answer = await fetch(canvas.dataset.address);
  if (!answer.ok) return;
  document.getElementById("frame").hidden = false; // without this script it would be an empty box
  map = new NoteMap(canvas, (await answer.json()).folders[0], map);
  document.getElementById("layers").hidden = false;
  document.getElementById("zoom").hidden = false;
  map.draw();
  if (canvas.dataset.ready) return;
  canvas.dataset.ready = "1";
  listen(canvas);
  new ResizeObserver(() => map.draw()).observe(canvas);
}

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-layer]")) {
    write({ off: [...document.querySelectorAll("[data-layer]:not(:checked)")].map((each) => each.dataset.layer) });
    map?.draw();
  } else if (event.target.id === "color") event.target.form.requestSubmit();
});
document.addEventListener("submit", (event) => {
  if (event.target.id !== "map-form") return;
  event.preventDefault();
  const { color, q } = event.target.elements;
  location.assign(change(location.href, { color: [color.selectedIndex ? color.value : ""], q: [q.value.trim()] }));
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-zoom]");
  if (button) map?.zoom(Number(button.dataset.zoom));
});
for (const look of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
  matchMedia(look).addEventListener("change", () => { map?.paint(); map?.draw(); });
}
shown(begin);
onChange(begin);
