// What all screens share: pages loaded in place, changes as they come, single keys, the palette, and what is read out.
const main = () => document.getElementById("main");
const kept = {
  get(name) { try { return localStorage.getItem(`thumbindex.${name}`); } catch { return null; } },
  set(name, value) { try { localStorage.setItem(`thumbindex.${name}`, value); } catch { /* a browser that keeps nothing */ } },
};
const whenShown = [];
let changed = null;
let request = null;
let loading = Promise.resolve(); // the last load that somebody asked for

/** Run a function now, and each time a page was loaded in place: it is told whether that is another page than before. */
export function shown(run) {
  whenShown.push(run);
  run(true);
}

/** Say something to those who listen to the page: what comes quickly after it takes its place. */
let saying = 0;
export function announce(text) {
  clearTimeout(saying);
  saying = setTimeout(() => { document.getElementById("announcement").textContent = text; }, 600);
}

/** Fetch a page as a document: the browser parses it itself, and runs nothing of it. */
function fetchPage(address, part) {
  request?.abort();
  return new Promise((resolve, reject) => {
    const asked = new XMLHttpRequest();
    request = asked;
    asked.open("GET", address);
    asked.responseType = "document";
    asked.setRequestHeader("Thumbindex-Part", part);
    asked.onload = () => resolve(asked);
    asked.onerror = () => reject(new Error("no answer"));
    asked.onabort = () => resolve(null);
    asked.send();
  });
}

let here = location.pathname + location.search; // of the page that is shown

/** Change the address of the page that is shown. */
export function move(address, push = false) {
  const isAnother = new URL(address, location.href).href !== location.href;
  if (push && isAnother) history.pushState(null, "", address); else history.replaceState(null, "", address);
  here = location.pathname + location.search;
}

const FIELDS = "input:not([type=hidden]), textarea, select";

/** Tell fields of two editions of a page apart: by the form, by what it is about, and by name. */
const keyOf = (field) => {
  const hidden = [...(field.form?.querySelectorAll("input[type=hidden]:not([name=next])") ?? [])].map((each) => [each.name, each.value]);
  return JSON.stringify([field.form?.getAttribute("action"), hidden, field.name || field.id, field.type === "checkbox" && field.value]);
};
const isTouched = (field) => field.type === "checkbox"
  ? field.checked !== field.defaultChecked
  : field.options ? [...field.options].some((each) => each.selected !== each.defaultSelected) : field.value !== field.defaultValue;

/** Take over what somebody has typed and not sent, before a page is put in place of its earlier edition; return the field that had the focus. */
function takeOver(before, fresh) {
  const fields = new Map([...fresh.querySelectorAll(FIELDS)].map((each) => [keyOf(each), each]));
  for (const old of before.querySelectorAll(FIELDS)) {
    const now = isTouched(old) && fields.get(keyOf(old));
    if (now) now[old.type === "checkbox" ? "checked" : "value"] = old.type === "checkbox" ? old.checked : old.value;
  }
  const active = document.activeElement;
  return before.contains(active) && active.matches(FIELDS) ? fields.get(keyOf(active)) : undefined;
}

/** Load one of our pages in place of this one's content, or of one part of it; focus and open details stay, and what was typed where it is the same
 * page. Returns whether it is shown: null where another load has taken its place. */
export function load(address, { push = true, part = "main" } = {}) {
  const shows = replace(address, push, part);
  if (push) loading = shows;
  return shows;
}

async function replace(address, push, part) {
  let answer;
  try {
    answer = await fetchPage(address, part);
  } catch {
    announce("The server does not answer.");
    return false;
  }
  if (!answer) return null;
  const found = answer.response?.getElementById(part);
  if (!found) {
    location.assign(address);
    return false;
  }
  const active = document.activeElement;
  const opened = new Set([...document.querySelectorAll("details[open][id]")].map((each) => each.id));
  const fresh = document.adoptNode(found);
  for (const each of fresh.querySelectorAll("details[id]")) if (opened.has(each.id)) each.open = true;
  const before = document.getElementById(part);
  const caret = [active?.selectionStart, active?.selectionEnd];
  const field = push ? undefined : takeOver(before, fresh);
  before.replaceWith(fresh);
  document.title = answer.response.title;
  document.body.dataset.revision = answer.response.body.dataset.revision ?? "";
  const there = new URL(answer.responseURL || address, location.href);
  move(there.pathname + there.search + new URL(address, location.href).hash, push);
  if (document.activeElement !== active) (field ?? document.getElementById(active.id))?.focus({ preventScroll: true });
  if (field && caret[0] !== null && caret[0] !== undefined) field.setSelectionRange(...caret);
  for (const run of whenShown) run(push);
  return true;
}

/** Load the page as it is now, after a note was saved. */
export const reload = () => load(location.pathname + location.search + location.hash, { push: false });

/** Run a function after notes have changed, instead of loading the screen anew. */
export function onChange(run) {
  changed = run;
}

/** Whether single keys act: whoever speaks to a computer may switch them off. */
export const keysAreOn = () => kept.get("keys") !== "off";

/** Let single keys act while the focus is inside an element. */
export function keys(actions, id) {
  document.addEventListener("keydown", (event) => {
    if (!keysAreOn() || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const inside = document.getElementById(id);
    const isInside = inside?.contains(event.target) || (inside && id === "main" && event.target === document.body); // nothing has the focus yet
    if (!isInside || event.target.closest("input, textarea, select")) return;
    const act = actions[event.key];
    if (act && act(event) !== false) event.preventDefault();
  });
  known.push(...Object.keys(actions).map((key) => [key, actions[key].says ?? ""]));
}
const known = [];

// ------------------------------------------------------------------ what changes

const AGAIN = 15_000; // milliseconds until a stream that was refused is asked for again
let source = null;
let opened = 0;
const refresh = async () => {
  await loading; // news must not abort what somebody has just opened
  return (changed ?? reload)();
};
function follow() {
  if (document.hidden || !document.body.dataset.screen || ["sign_in", "message"].includes(document.body.dataset.screen)) {
    source?.close();
    source = null;
  } else if (!source) {
    source = new EventSource("/changes");
    const renew = () => { nobodys = []; refresh(); };
    // While nobody listened notes may have changed; decisions and progress, too, where there was a stream before.
    source.addEventListener("revision", (event) => { if (opened++ || event.data !== document.body.dataset.revision) renew(); });
    source.addEventListener("notes", renew);
    source.addEventListener("progress", () => document.getElementById("progress") && refresh());
    source.addEventListener("error", () => {
      if (source?.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
      source = null;
      setTimeout(follow, AGAIN);
    });
  }
}
document.addEventListener("visibilitychange", follow);
window.addEventListener("pagehide", () => { source?.close(); source = null; });
window.addEventListener("pageshow", follow);
// A jump within the page is the browser's own.
window.addEventListener("popstate", () => { if (location.pathname + location.search !== here) location.reload(); });

// ------------------------------------------------------------------ copying

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    announce("Copied");
    const said = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = said; }, 1500);
  } catch {
    announce("The browser does not let this page copy.");
  }
});
shown(() => { for (const each of document.querySelectorAll("button[data-copy]")) each.hidden = !navigator.clipboard; });

// ------------------------------------------------------------------ notes by name

let nobodys = []; // beginnings that no note's name has, until notes change: what begins with one of them is not asked

/** Return the notes whose name begins so; null where the server did not answer. */
export async function notesNamed(typed) {
  const text = typed.normalize();
  if (nobodys.some((each) => text.startsWith(each))) return [];
  try {
    const answer = await fetch(`/names.json?q=${encodeURIComponent(text)}`);
    if (!answer.ok) return null;
    const found = (await answer.json()).entries;
    if (!found.length) nobodys.push(text);
    return found;
  } catch {
    return null;
  }
}

// ------------------------------------------------------------------ thumbs: kept without leaving the page

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches(".judging")) return;
  event.preventDefault();
  const pressed = event.submitter;
  const given = new URLSearchParams(new FormData(form));
  if (pressed?.name) given.set(pressed.name, pressed.value);
  const wasOn = pressed?.getAttribute("aria-pressed") === "true";
  let answer;
  try {
    answer = await fetch(form.action, { method: "POST", body: given, headers: { Accept: "application/json" } });
  } catch {
    announce("The server does not answer.");
    return;
  }
  const kept = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    announce(kept.error ?? "This could not be kept.");
    return;
  }
  const show = (button, isOn) => {
    button.setAttribute("aria-pressed", String(isOn));
    button.value = isOn ? "take_back" : button.dataset.grade;
  };
  for (const each of form.querySelectorAll("button")) show(each, each === pressed && !wasOn);
  announce(wasOn ? "Taken back" : `Kept: ${pressed.textContent.trim()}`);
});

// ------------------------------------------------------------------ the palette

function make(tag, text, facts = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  Object.assign(made, facts);
  return made;
}

function palette() {
  const dialog = make("dialog", "", { id: "palette" });
  dialog.setAttribute("aria-label", "Go to a note or a screen");
  const label = make("label", "A note, a screen, or a setting", { htmlFor: "palette-text", className: "quiet" });
  const field = make("input", "", { id: "palette-text", type: "text", autocomplete: "off" });
  const list = make("ul", "");
  const help = make("details", "");
  help.append(make("summary", "Keys"), keyTable());
  dialog.append(label, field, list, help);
  document.body.append(dialog);
  const screens = [...document.querySelectorAll(".top nav a")].map((each) => [each.textContent, each.getAttribute("href")]);
  const entry = (text, href) => { const item = make("li", ""); item.append(make("a", text, { href })); return item; };
  const setting = (text, act) => { const item = make("li", ""); const button = make("button", text, { type: "button" }); button.addEventListener("click", act); item.append(button); return item; };
  let asked = 0;
  const fill = async () => {
    const typed = field.value.trim().toLowerCase();
    const turn = ++asked;
    const found = screens.filter(([text]) => text.toLowerCase().startsWith(typed)).map(([text, href]) => entry(text, href));
    const themes = { system: "light dark", light: "light", dark: "dark" };
    const settings = [
      [`Single keys: ${keysAreOn() ? "on" : "off"} (switch)`, () => { kept.set("keys", keysAreOn() ? "off" : "on"); fill(); }],
      ...Object.keys(themes).map((each) => [`Colors: ${each}`, () => { kept.set("theme", themes[each]); paint(); }]),
    ].filter(([text]) => text.toLowerCase().includes(typed)).map(([text, act]) => setting(text, act));
    let notes = [];
    if (typed) {
      const named = (await notesNamed(field.value.trim())) ?? []; // the screens are there without notes
      notes = named.map((each) => entry(`${each.heading || each.path} - ${each.path}`, each.address));
      if (turn !== asked) return;
      notes.push(entry(`Ask: ${field.value.trim()}`, `/?q=${encodeURIComponent(field.value.trim())}`));
    }
    const ask = notes.splice(-1);
    list.replaceChildren(...found, ...notes, ...(typed ? settings : []), ...ask, ...(typed ? [] : settings));
    announce(`${list.children.length} entries`);
  };
  let filled = Promise.resolve();
  field.addEventListener("input", () => { filled = fill(); });
  field.addEventListener("keydown", async (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    await filled; // what was typed fast is looked up first
    list.querySelector("a, button")?.click();
  });
  dialog.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const places = [field, ...list.querySelectorAll("a, button")];
    places[(places.indexOf(document.activeElement) + step + places.length) % places.length]?.focus();
    event.preventDefault();
  });
  return () => {
    if (dialog.open) return dialog.close(); // the browser gives the focus back to where it was
    field.value = "";
    help.replaceChildren(make("summary", "Keys"), keyTable());
    dialog.showModal();
    field.focus();
    return fill();
  };
}

function keyTable() {
  const table = make("table", "", { className: "table" });
  const all = [["Ctrl K or ⌘ K", "go to a note, a screen or a setting"], ...known.filter(([, says]) => says)];
  for (const [key, says] of all) {
    const row = table.insertRow();
    const head = make("th", "", { scope: "row" });
    head.append(make("kbd", key));
    row.append(head, make("td", says));
  }
  return table;
}

function paint() {
  const theme = kept.get("theme");
  document.documentElement.style.colorScheme = theme && theme !== "light dark" ? theme : "";
}

paint();
const opener = document.getElementById("open-palette");
let toggle = null;
const openPalette = () => { toggle ??= palette(); toggle(); };
if (opener && document.body.dataset.screen !== "sign_in") {
  opener.hidden = false;
  opener.addEventListener("click", openPalette);
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === "k") { event.preventDefault(); openPalette(); }
  });
}
follow();
