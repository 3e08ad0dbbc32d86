// Answers as one types: names at each letter, passages for finished words.
import { announce, keys, load, notesNamed, onChange } from "./page.js";

// A last word that no space has finished is asked when the keys rest for clearly longer than this typist takes from key to key.
const LEAST_REST = 400; // milliseconds, however fast somebody types
const LONGER = 3; // times the usual gap
const SLOW = 500; // milliseconds from key to key, until enough gaps are known
const PAUSE = 2_000; // a longer gap is for thinking
const KNOWN = 3;
const KEPT = 15; // gaps that tell how somebody types now
const field = () => document.getElementById("q");
let timer = 0;
let pressed = 0; // when the last key was, in milliseconds
const gaps = [];
let asked = field()?.value.trim() ?? "";
let named = asked; // the text for which notes are offered by name
let isNaming = false;

function addressOf(text) {
  const given = new URLSearchParams(new FormData(document.getElementById("ask")));
  given.set("q", text);
  for (const [name, value] of [...given]) if (!value) given.delete(name);
  return given.size ? `/?${given}` : "/";
}

async function ask(text, push = false) {
  if (text === asked && !push) return;
  const before = asked;
  asked = text;
  const isShown = await show(addressOf(text), push);
  if (isShown) announce(document.getElementById("sure")?.textContent.trim() ?? "");
  else if (isShown === false && asked === text) asked = before; // the server did not answer: the same may be asked again
}

async function show(address, push) {
  const text = asked;
  const isShown = await load(address, { push, part: "answer" });
  if (isShown) document.getElementById("answer").dataset.asked = text;
  return isShown;
}

/** Offer notes by name: one request at a time, and the text that was typed last is the next one. */
async function names(text) {
  if (text === named) return;
  named = text;
  if (isNaming) return;
  isNaming = true;
  let offered = null;
  while (offered !== named) {
    offered = named;
    const found = offered ? await notesNamed(offered) : [];
    if (found) offer(found);
  }
  isNaming = false;
}

function offer(found) {
  const list = document.getElementById("names");
  const several = new Set(found.map((each) => each.folder)).size > 1;
  const items = found.map((each) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = each.address;
    link.textContent = each.heading || each.path;
    const path = document.createElement("span");
    path.className = "quiet path";
    path.textContent = (several ? `${each.folder}: ` : "") + each.path;
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

/** Remember how long the last key took. */
function keep(now) {
  if (now - pressed < PAUSE) gaps.push(now - pressed);
  if (gaps.length > KEPT) gaps.shift();
  pressed = now;
}

/** Return after how many milliseconds without a key a word is taken for finished. */
function rest() {
  const usual = gaps.length < KNOWN ? SLOW : [...gaps].sort((a, b) => a - b)[gaps.length >> 1];
  return Math.max(LEAST_REST, LONGER * usual);
}

document.addEventListener("input", (event) => {
  if (event.target !== field()) return;
  clearTimeout(timer);
  keep(event.timeStamp);
  const typed = field().value;
  names(typed.trim());
  const isWhole = ["insertFromPaste", "insertFromDrop"].includes(event.inputType);
  if (isWhole || /\s$/.test(typed) || !typed) ask(typed.trim());
  else timer = setTimeout(() => ask(typed.trim()), rest());
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

/** Return what a reader reads of a card: where scores or places alone have moved, nothing has changed for him. */
function words(card) {
  const copy = card.cloneNode(true);
  for (const each of copy.querySelectorAll("meter, .where, summary, .actions, .judging")) each.remove();
  return copy.textContent.replace(/\s+/g, " ");
}

onChange(async () => {
  const cards = () => [...document.querySelectorAll("#cards article")];
  const pathOf = (card) => card.querySelector(".path").textContent;
  const before = new Set(cards().map((each) => pathOf(each) + words(each)));
  const isHere = (new URLSearchParams(location.search).get("q") ?? "").trim() === asked; // else its answer is still on its way
  if (!(await show(isHere ? location.pathname + location.search : addressOf(asked), false))) return;
  const others = cards().filter((each) => !before.has(pathOf(each) + words(each)));
  for (const each of others) each.classList.add("changed");
  if (others.length) announce(others.length === 1 ? "One passage changed" : `${others.length} passages changed`);
});

function step(by) {
  const places = [...document.querySelectorAll("#cards .place a")];
  const at = places.indexOf(document.activeElement.closest("article")?.querySelector(".place a"));
  places[Math.min(places.length - 1, Math.max(0, at + by))]?.focus();
}
const next = () => step(1);
next.says = "next passage, with the focus on one";
const previous = () => step(-1);
previous.says = "previous passage";
keys({ j: next, k: previous }, "cards");

document.addEventListener("keydown", (event) => {
  if (event.key !== "ArrowDown" || event.target !== field()) return;
  document.querySelector("#cards .place a")?.focus();
  event.preventDefault();
});
