// Search as you type: note names after each letter, passages after each finished word.
import { announce, keys, load, notesNamed, onChange } from "./page.js";

// The last word counts as finished after a pause clearly longer than the user's usual gap between key presses.
const MIN_PAUSE = 400; // milliseconds
const PAUSE_FACTOR = 3; // times the usual gap
const DEFAULT_GAP = 500; // milliseconds, until MIN_GAPS gaps are measured
const MAX_GAP = 2_000; // longer gaps are pauses to think
const MIN_GAPS = 3;
const MAX_GAPS = 15; // only the latest gaps count
const field = () => document.getElementById("q");
let timer = 0;
let pressed = 0; // time of the last key press, in milliseconds
const gaps = [];
let asked = field()?.value.trim() ?? ""; // the question whose passages are shown or on their way
let named = asked; // the text whose matching names are shown or on their way
let isNaming = false;

function addressOf(text) {
  const parameters = new URLSearchParams(new FormData(document.getElementById("ask")));
  parameters.set("q", text);
  for (const [name, value] of [...parameters]) if (!value) parameters.delete(name);
  return parameters.size ? `/?${parameters}` : "/";
}

async function ask(text, push = false) {
  if (text === asked && !push) return;
  const before = asked;
  asked = text;
  const isShown = await show(addressOf(text), push);
  if (isShown) announce(document.getElementById("sure")?.textContent.trim() ?? "");
  else if (isShown === false && asked === text) asked = before; // no response: allow the same question again
}

async function show(address, push) {
  const text = asked;
  const isShown = await load(address, { push, part: "answer" });
  if (isShown) document.getElementById("answer").dataset.asked = text;
  return isShown;
}

/** Suggest notes by name. Only one request runs at a time; the next one sends the latest text. */
async function suggestNames(text) {
  if (text === named) return;
  named = text;
  if (isNaming) return;
  isNaming = true;
  let current = null;
  while (current !== named) {
    current = named;
    const notes = current ? await notesNamed(current) : [];
    if (notes) showNames(notes);
  }
  isNaming = false;
}

function showNames(notes) {
  const list = document.getElementById("names");
  const several = new Set(notes.map((note) => note.folder)).size > 1;
  const items = notes.map((note) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = note.address;
    link.textContent = note.heading || note.path;
    const path = document.createElement("span");
    path.className = "quiet path";
    path.textContent = (several ? `${note.folder}: ` : "") + note.path;
    item.append(link, " ", path);
    return item;
  });
  if (!items.length) return list.replaceChildren();
  const head = document.createElement("h2");
  head.className = "lane";
  head.textContent = "Notes by name";
  const all = document.createElement("ul");
  all.className = "plain";
  all.append(...items);
  return list.replaceChildren(head, all);
}

/** Record the gap since the last key press. */
function recordGap(now) {
  if (now - pressed < MAX_GAP) gaps.push(now - pressed);
  if (gaps.length > MAX_GAPS) gaps.shift();
  pressed = now;
}

/** Return the pause, in milliseconds, after which a word counts as finished. */
function pauseLength() {
  const usual = gaps.length < MIN_GAPS ? DEFAULT_GAP : [...gaps].sort((a, b) => a - b)[gaps.length >> 1];
  return Math.max(MIN_PAUSE, PAUSE_FACTOR * usual);
}

document.addEventListener("input", (event) => {
  if (event.target !== field()) return;
  clearTimeout(timer);
  recordGap(event.timeStamp);
  const typed = field().value;
  suggestNames(typed.trim());
  const isPasted = ["insertFromPaste", "insertFromDrop"].includes(event.inputType);
  if (isPasted || /\s$/.test(typed) || !typed) ask(typed.trim());
  else timer = setTimeout(() => ask(typed.trim()), pauseLength());
});

document.addEventListener("submit", (event) => {
  if (event.target.id !== "ask") return;
  event.preventDefault();
  clearTimeout(timer);
  ask(field().value.trim(), true);
});

document.addEventListener("change", (event) => {
  if (event.target.closest(".narrow")) ask(field().value.trim(), true);
});

/** Return a card's text without scores and line numbers, whose changes do not matter to the reader. */
function words(card) {
  const copy = card.cloneNode(true);
  for (const part of copy.querySelectorAll("meter, .where, summary, .actions, .judging")) part.remove();
  return copy.textContent.replace(/\s+/g, " ");
}

onChange(async () => {
  const cards = () => [...document.querySelectorAll("#cards article")];
  const pathOf = (card) => card.querySelector(".path").textContent;
  const before = new Set(cards().map((card) => pathOf(card) + words(card)));
  const isShown = (new URLSearchParams(location.search).get("q") ?? "").trim() === asked; // otherwise the answer is on its way
  if (!(await show(isShown ? location.pathname + location.search : addressOf(asked), false))) return;
  const changed = cards().filter((card) => !before.has(pathOf(card) + words(card)));
  for (const card of changed) card.classList.add("changed");
  if (changed.length) announce(changed.length === 1 ? "One passage changed" : `${changed.length} passages changed`);
});

function step(by) {
  const places = [...document.querySelectorAll("#cards .place a")];
  const at = places.indexOf(document.activeElement.closest("article")?.querySelector(".place a"));
  places[Math.min(places.length - 1, Math.max(0, at + by))]?.focus();
}
const next = () => step(1);
next.says = "next passage, if a passage has the focus";
const previous = () => step(-1);
previous.says = "previous passage";
keys({ j: next, k: previous }, "cards");

document.addEventListener("keydown", (event) => {
  if (event.key !== "ArrowDown" || event.target !== field()) return;
  document.querySelector("#cards .place a")?.focus();
  event.preventDefault();
});
