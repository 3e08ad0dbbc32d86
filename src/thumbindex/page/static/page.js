// Shared by all screens: in-place loading, live changes, single-key shortcuts, the palette, announcements.
export const storage = {
  get(name) { try { return localStorage.getItem(`thumbindex.${name}`); } catch { return null; } },
  set(name, value) { try { localStorage.setItem(`thumbindex.${name}`, value); } catch { /* storage is disabled */ } },
};
const whenShown = [];
let changed = null;
let request = null;
let loading = Promise.resolve(); // the last load that the user started

/** Run a function now and after each in-place load. Its argument tells whether another page is shown. */
export function shown(run) {
  whenShown.push(run);
  run(true);
}

/** Announce a text to screen readers; a later text within 600 ms replaces it. */
let announcing = 0;
export function announce(text) {
  clearTimeout(announcing);
  announcing = setTimeout(() => { document.getElementById("announcement").textContent = text; }, 600);
}

/** Fetch a page as a document; the browser parses it without running scripts. */
function fetchPage(address, part) {
  request?.abort();
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    request = xhr;
    xhr.open("GET", address);
    xhr.responseType = "document";
    xhr.setRequestHeader("Thumbindex-Part", part);
    xhr.onload = () => resolve(xhr);
    xhr.onerror = () => reject(new Error("no response"));
    xhr.onabort = () => resolve(null);
    xhr.send();
  });
}

let here = location.pathname + location.search; // of the shown page

/** Change the address of the shown page. */
export function move(address, push = false) {
  const isAnother = new URL(address, location.href).href !== location.href;
  if (push && isAnother) history.pushState(null, "", address); else history.replaceState(null, "", address);
  here = location.pathname + location.search;
}

const FIELDS = "input:not([type=hidden]), textarea, select";

/** Return a key that identifies a field across reloads of a page: its form, the form's subject, its name. */
const keyOf = (field) => {
  const hidden = [...(field.form?.querySelectorAll("input[type=hidden]:not([name=next])") ?? [])].map((input) => [input.name, input.value]);
  return JSON.stringify([field.form?.getAttribute("action"), hidden, field.name || field.id, field.type === "checkbox" && field.value]);
};
const isTouched = (field) => field.type === "checkbox"
  ? field.checked !== field.defaultChecked
  : field.options ? [...field.options].some((option) => option.selected !== option.defaultSelected) : field.value !== field.defaultValue;

/** Copy unsent input to the page's new version; return the new version of the focused field. */
function copyInput(before, fresh) {
  const fields = new Map([...fresh.querySelectorAll(FIELDS)].map((field) => [keyOf(field), field]));
  for (const old of before.querySelectorAll(FIELDS)) {
    const field = isTouched(old) && fields.get(keyOf(old));
    if (field) field[old.type === "checkbox" ? "checked" : "value"] = old.type === "checkbox" ? old.checked : old.value;
  }
  const active = document.activeElement;
  return before.contains(active) && active.matches(FIELDS) ? fields.get(keyOf(active)) : undefined;
}

/** Load one of our pages into this one, or only a part of it. Keeps the focus and open details; on a reload, also unsent input.
 * Returns whether the page is shown, or null if another load has replaced this one. */
export function load(address, { push = true, part = "main" } = {}) {
  const isShown = replace(address, push, part);
  if (push) loading = isShown;
  return isShown;
}

async function replace(address, push, part) {
  let answer;
  document.getElementById(part)?.setAttribute("aria-busy", "true");
  try {
    answer = await fetchPage(address, part);
  } catch {
    document.getElementById(part)?.removeAttribute("aria-busy");
    announce("The server does not respond.");
    return false;
  }
  if (!answer) return null;
  const content = answer.response?.getElementById(part);
  if (!content) {
    location.assign(address);
    return false;
  }
  const active = document.activeElement;
  const opened = new Set([...document.querySelectorAll("details[open][id]")].map((details) => details.id));
  const fresh = document.adoptNode(content);
  for (const details of fresh.querySelectorAll("details[id]")) if (opened.has(details.id)) details.open = true;
  const before = document.getElementById(part);
  const caret = [active?.selectionStart, active?.selectionEnd];
  const field = push ? undefined : copyInput(before, fresh);
  before.replaceWith(fresh);
  document.title = answer.response.title;
  document.body.dataset.revision = answer.response.body.dataset.revision ?? "";
  const url = new URL(answer.responseURL || address, location.href);
  move(url.pathname + url.search + new URL(address, location.href).hash, push);
  if (document.activeElement !== active) (field ?? document.getElementById(active.id))?.focus({ preventScroll: true });
  if (field && caret[0] !== null && caret[0] !== undefined) field.setSelectionRange(...caret);
  for (const run of whenShown) run(push);
  return true;
}

/** Reload the page after a note was saved. */
export const reload = () => load(location.pathname + location.search + location.hash, { push: false });

/** Run a function after notes change, instead of reloading the screen. */
export function onChange(run) {
  changed = run;
}

/** Whether single-key shortcuts are on; users of speech input may turn them off. */
export const keysAreOn = () => storage.get("keys") !== "off";

/** Bind single-key shortcuts. They work everywhere but in a field, without a first click. */
export function keys(actions) {
  document.addEventListener("keydown", (event) => {
    if (!keysAreOn() || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
    if (event.target.closest("input, textarea, select, dialog")) return;
    const act = actions[event.key];
    if (act && act(event) !== false) event.preventDefault();
  });
  keyHelp.push(...Object.keys(actions).map((key) => [key, actions[key].says ?? ""]));
}

/** Return a function for `keys`, with the words that explain it. */
export const says = (words, act) => Object.assign(act, { says: words });
const keyHelp = [];

// ------------------------------------------------------------------ live changes

const RETRY_MS = 15_000; // milliseconds until a refused stream is retried
let source = null;
let opened = 0;
const refresh = async () => {
  await loading; // do not abort a page that the user has just opened
  return (changed ?? reload)();
};
function follow() {
  if (document.hidden || !document.body.dataset.screen || ["sign_in", "message"].includes(document.body.dataset.screen)) {
    source?.close();
    source = null;
  } else if (!source) {
    source = new EventSource("/changes");
    const renew = () => { unmatchedPrefixes = []; refresh(); };
    // Notes may have changed while no stream was open; after a reconnection, also decisions and progress.
    source.addEventListener("revision", (event) => { if (opened++ || event.data !== document.body.dataset.revision) renew(); });
    source.addEventListener("notes", renew);
    source.addEventListener("progress", () => document.getElementById("progress") && refresh());
    source.addEventListener("error", () => {
      if (source?.readyState !== EventSource.CLOSED) return; // the browser reconnects by itself
      source = null;
      setTimeout(follow, RETRY_MS);
    });
  }
}
document.addEventListener("visibilitychange", follow);
window.addEventListener("pagehide", () => { source?.close(); source = null; });
window.addEventListener("pageshow", follow);
// The browser handles jumps within the page.
window.addEventListener("popstate", () => { if (location.pathname + location.search !== here) location.reload(); });

// ------------------------------------------------------------------ copying

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    announce("Copied");
    const toast = make("p", `Copied: ${button.dataset.copy}`, { className: "toast", ariaHidden: "true" });
    document.body.append(toast);
    setTimeout(() => toast.remove(), 1500);
    button.setAttribute("aria-pressed", "true");
    setTimeout(() => button.removeAttribute("aria-pressed"), 1500);
  } catch {
    announce("Your browser does not allow copying.");
  }
});
shown(() => { for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = !navigator.clipboard; });

// ------------------------------------------------------------------ notes by name

const MAX_NEWEST = 5; // notes listed before anything is typed
let unmatchedPrefixes = []; // no note's name begins with these; cleared when notes change
const MIN_TYPO = 4; // letters of a word that may have a typo: a shorter one may match when it grows

/** Return the notes whose names complete the text, or null if the server did not respond. */
export async function notesNamed(typed) {
  const text = typed.normalize();
  if (unmatchedPrefixes.some((prefix) => text.startsWith(prefix))) return [];
  try {
    const response = await fetch(`/names.json?q=${encodeURIComponent(text)}`);
    if (!response.ok) return null;
    const notes = (await response.json()).entries;
    if (!notes.length && text.split(" ").at(-1).length >= MIN_TYPO) unmatchedPrefixes.push(text);
    return notes;
  } catch {
    return null;
  }
}

// ------------------------------------------------------------------ judging without leaving the page

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches(".judging")) return;
  event.preventDefault();
  const pressed = event.submitter;
  const body = new URLSearchParams(new FormData(form));
  if (pressed?.name) body.set(pressed.name, pressed.value);
  const wasOn = pressed?.getAttribute("aria-pressed") === "true";
  let response;
  try {
    response = await fetch(form.action, { method: "POST", body, headers: { Accept: "application/json" } });
  } catch {
    announce("The server does not respond.");
    return;
  }
  const result = await response.json().catch(() => ({}));
  if (!response.ok) {
    announce(result.error ?? "The judgment was not saved.");
    return;
  }
  const show = (button, isOn) => {
    button.setAttribute("aria-pressed", String(isOn));
    button.value = isOn ? "take_back" : button.dataset.grade;
  };
  for (const button of form.querySelectorAll("button")) show(button, button === pressed && !wasOn);
  announce(wasOn ? "Removed" : `Saved: ${pressed.textContent.trim()}`);
});

// ------------------------------------------------------------------ the palette

function make(tag, text, properties = {}) {
  const element = document.createElement(tag);
  element.textContent = text;
  Object.assign(element, properties);
  return element;
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
  const screens = [...document.querySelectorAll(".top li a")].map((link) => [link.textContent, link.getAttribute("href")]);
  const entry = (text, href, path = "") => {
    const item = make("li", "");
    const link = make("a", text, { href });
    if (path) link.append(" ", make("span", path, { className: "path" }));
    item.append(link);
    return item;
  };
  const setting = (text, act) => { const item = make("li", ""); const button = make("button", text, { type: "button" }); button.addEventListener("click", act); item.append(button); return item; };
  let fills = 0;
  const fill = async () => {
    const typed = field.value.trim().toLowerCase();
    const turn = ++fills;
    const matching = screens.filter(([text]) => text.toLowerCase().startsWith(typed)).map(([text, href]) => entry(text, href));
    const themes = { system: "light dark", light: "light", dark: "dark" };
    const settings = [
      [`Single-key shortcuts: ${keysAreOn() ? "on" : "off"} (switch)`, () => { storage.set("keys", keysAreOn() ? "off" : "on"); fill(); }],
      ...Object.keys(themes).map((name) => [`Colors: ${name}`, () => { storage.set("theme", themes[name]); paint(); }]),
    ].filter(([text]) => text.toLowerCase().includes(typed)).map(([text, act]) => setting(text, act));
    const ask = typed ? [entry(`Ask: ${field.value.trim()}`, `/?q=${encodeURIComponent(field.value.trim())}`)] : [];
    list.replaceChildren(...matching, ...settings, ...ask); // the notes follow
    const named = (await notesNamed(field.value.trim())) ?? []; // list the screens even if the server does not respond
    if (turn !== fills) return;
    const notes = named.map((note) => entry(note.heading || note.path, note.address, note.path));
    list.replaceChildren(...(typed ? [] : notes.slice(0, MAX_NEWEST)), ...matching, ...(typed ? notes : []), ...settings, ...ask);
    announce(`${list.children.length} entries`);
  };
  let filled = Promise.resolve();
  field.addEventListener("input", () => { filled = fill(); });
  field.addEventListener("keydown", async (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    await filled; // wait until the list matches the typed text
    list.querySelector("a, button")?.click();
  });
  dialog.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const places = [field, ...list.querySelectorAll("a, button")];
    places[(places.indexOf(document.activeElement) + step + places.length) % places.length]?.focus();
    event.preventDefault();
  });
  return (showsKeys) => {
    if (dialog.open) return dialog.close(); // the browser restores the focus
    field.value = "";
    help.replaceChildren(make("summary", "Keys"), keyTable());
    help.open = showsKeys;
    dialog.classList.toggle("keys", showsKeys);
    dialog.showModal();
    field.focus();
    return fill();
  };
}

const SIGNS = { ArrowDown: "↓", ArrowUp: "↑", ArrowRight: "→", ArrowLeft: "←" };

function keyTable() {
  const table = make("table", "", { className: "table" });
  const all = [["Ctrl K or ⌘ K", "go to a note, a screen or a setting"], ["Enter", "open the result at its line"], ["Esc", "back to the question, or to the answer"], ...keyHelp.filter(([, says]) => says)];
  for (const [key, says] of all) {
    const row = table.insertRow();
    const head = make("th", "", { scope: "row" });
    head.append(make("kbd", SIGNS[key] ?? key));
    row.append(head, make("td", says));
  }
  return table;
}

function paint() {
  const theme = storage.get("theme");
  document.documentElement.style.colorScheme = theme && theme !== "light dark" ? theme : "";
}

paint();
const opener = document.getElementById("open-palette");
let toggle = null;
const openPalette = (showsKeys = false) => { toggle ??= palette(); toggle(showsKeys); };
if (opener && document.body.dataset.screen !== "sign_in") {
  opener.hidden = false;
  opener.addEventListener("click", () => openPalette());
  const keysButton = document.getElementById("show-keys");
  keysButton.closest("li").hidden = false;
  keysButton.addEventListener("click", () => openPalette(true));
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === "k") { event.preventDefault(); openPalette(); }
  });
}

// ------------------------------------------------------------------ keys of all screens

/** Put the focus into the field for questions. */
function focusQuestion() {
  const question = document.getElementById("q");
  question.focus();
  question.select();
}
keys({
  "/": says("ask a question", focusQuestion),
  "?": says("show the keys", () => openPalette(true)),
  y: says("copy the citation", () => current()?.querySelector("button[data-copy]")?.click()),
  o: says("open in the editor", () => current()?.querySelector("a.editor")?.click()),
});
document.addEventListener("keydown", (event) => {
  const menu = document.getElementById("menu");
  if (event.key !== "Escape" || event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
  if (menu?.open) menu.open = false;
  else if (document.activeElement.id === "q") document.activeElement.blur();
  else if (document.body.dataset.screen !== "ask") return history.back();
  else document.getElementById("q").focus();
  event.preventDefault(); // a browser would clear the field
});
document.addEventListener("click", (event) => {
  const menu = document.getElementById("menu");
  if (menu?.open && !menu.contains(event.target)) menu.open = false;
});

/** Return the result or note that the keys act on: the focused one, else the first. */
export function current() {
  return document.activeElement.closest("article") ?? document.querySelector("main article");
}

follow();
