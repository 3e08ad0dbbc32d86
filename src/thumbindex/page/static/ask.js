// Search as you type: note names after each letter, passages after each finished word.
import { announce, keys, load, notesNamed, onChange, says, shown, storage } from "./page.js";

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
let typed = asked; // the text whose matching names are wanted
let named = asked; // the text whose matching names are shown
let isNaming = false;

function addressOf(text) {
  const parameters = new URLSearchParams(new FormData(document.getElementById("ask")));
  parameters.set("q", text);
  for (const [name, value] of [...parameters]) if (!value) parameters.delete(name);
  return parameters.size ? `/?${parameters}` : "/";
}

/** Show the answer to a text. With `push`, it is a new page, and the keys act on its first result. */
async function ask(text, push = false) {
  if (text === asked && !push) return;
  const before = asked;
  asked = typed = named = text; // the answer lists the matching names, too
  const isShown = await show(addressOf(text), push);
  if (isShown && push && document.activeElement === field()) links()[0]?.focus();
  if (isShown) announce(document.getElementById("sure")?.textContent.trim() ?? "");
  else if (isShown === false && asked === text) asked = before; // no response: allow the same question again
}

async function show(address, push) {
  const text = asked;
  const isShown = await load(address, { push, part: "answer" });
  if (!isShown) return isShown;
  document.getElementById("answer").dataset.asked = text;
  named = text;
  suggestNames(); // if more was typed meanwhile
  return true;
}

/** Suggest notes by name. Only one request runs at a time; the next one sends the latest text. */
async function suggestNames() {
  if (isNaming) return;
  isNaming = true;
  while (named !== typed) {
    const text = typed;
    const notes = text ? await notesNamed(text) : [];
    if (text !== typed) continue;
    if (notes) showNames(notes);
    named = text;
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
  const isPasted = ["insertFromPaste", "insertFromDrop"].includes(event.inputType);
  const text = field().value.trim();
  if (isPasted || /\s$/.test(field().value) || !text) ask(text);
  else timer = setTimeout(() => ask(text), pauseLength());
  typed = text;
  suggestNames();
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

/** Return a result's text without its day and actions, whose changes do not matter to the reader. */
function words(result) {
  const copy = result.cloneNode(true);
  for (const part of copy.querySelectorAll("time, .tools")) part.remove();
  return copy.textContent.replace(/\s+/g, " ");
}

onChange(async () => {
  const results = () => [...document.querySelectorAll("#cards article")];
  const before = new Set(results().map(words));
  const isShown = (new URLSearchParams(location.search).get("q") ?? "").trim() === asked; // otherwise the answer is on its way
  if (!(await show(isShown ? location.pathname + location.search : addressOf(asked), false))) return;
  const changed = results().filter((result) => !before.has(words(result)));
  for (const result of changed) result.classList.add("changed");
  if (changed.length) announce(changed.length === 1 ? "One passage changed" : `${changed.length} passages changed`);
});

// ------------------------------------------------------------------ through the results by keys

const links = () => [...document.querySelectorAll("#cards .place a")].filter((link) => link.checkVisibility());

/** Move the focus by one result; from the first one up to the field. */
function step(by) {
  const places = links();
  const at = places.indexOf(document.activeElement.closest("article")?.querySelector(".place a"));
  if (at + by < 0) return field().focus();
  return places[Math.min(places.length - 1, at + by)]?.focus();
}

/** Open or close the focused result in place. */
function unfold(isOpen) {
  const details = document.activeElement.closest("article")?.querySelector(".result");
  if (!details) return false;
  details.open = isOpen;
  return true;
}
const next = says("next result", () => step(1));
const previous = says("previous result", () => step(-1));
keys({
  ArrowDown: next,
  ArrowUp: previous,
  j: next,
  k: previous,
  ArrowRight: says("open the result here", () => unfold(true)),
  ArrowLeft: says("close it", () => unfold(false)),
  w: says("why is the result here?", () => document.activeElement.closest("article")?.querySelector("a[href^='/why']")?.click()),
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "ArrowDown" || event.target !== field() || event.isComposing) return;
  links()[0]?.focus();
  event.preventDefault();
});

// ------------------------------------------------------------------ questions asked lately

const MAX_RECENT = 5;
const recentQuestions = () => JSON.parse(storage.get("recent") ?? "[]");

/** Remember a question whose answer was used, in this browser only. */
function remember(question) {
  if (!question) return;
  const questions = [question, ...recentQuestions().filter((other) => other !== question)];
  storage.set("recent", JSON.stringify(questions.slice(0, MAX_RECENT)));
}
document.addEventListener("click", (event) => { if (event.target.closest("#cards a, #cards summary, #cards button")) remember(asked); });

// Return to the result that was opened.
document.addEventListener("click", (event) => { const link = event.target.closest("#cards .place a"); if (link) history.replaceState({ result: link.id }, ""); });
document.getElementById(history.state?.result)?.focus({ preventScroll: true });

document.addEventListener("submit", (event) => { if (event.target.id === "ask") remember(field().value.trim()); });

shown(() => {
  const section = document.getElementById("recent");
  const questions = recentQuestions();
  if (!section || !questions.length) return;
  section.hidden = false;
  section.querySelector("ul").replaceChildren(...questions.map((question) => {
    const link = document.createElement("a");
    link.href = `/?q=${encodeURIComponent(question)}`;
    link.textContent = question;
    const item = document.createElement("li");
    item.append(link);
    return item;
  }));
});
