// What all screens share: pages loaded in place, changes as they come, single keys, the palette, and what is read out.
const main = () => document.getElementById("main");
const kept = {
  get(name) { try { return localStorage.getItem(`thumbindex.${name}`); } catch { return null; } },
  set(name, value) { try { localStorage.setItem(`thumbindex.${name}`, value); } catch { /* a browser that keeps nothing */ } },
};
const whenShown = [];
let changed = null;
let request = null;

/** Run a function now, and each time a page was loaded in place. */
export function shown(run) {
  whenShown.push(run);
  run();
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

/** Load one of our pages in place of this one's content, or of one part of it; focus and open details stay. */
export async function load(address, { push = true, part = "main" } = {}) {
  let answer;
  try {
    answer = await fetchPage(address, part);
  } catch {
    announce("The server does not answer.");
    return false;
  }
  const found = answer?.response?.getElementById(part);
  if (!answer) return false;
  if (!found) {
    location.assign(address);
    return false;
  }
  const focused = document.activeElement?.id;
  const opened = new Set([...document.querySelectorAll("details[open][id]")].map((each) => each.id));
  const fresh = document.adoptNode(found);
  for (const each of fresh.querySelectorAll("details[id]")) if (opened.has(each.id)) each.open = true;
  document.getElementById(part).replaceWith(fresh);
  document.title = answer.response.title;
  const here = new URL(answer.responseURL || address, location.href);
  const target = here.pathname + here.search + new URL(address, location.href).hash;
  if (push) history.pushState(null, "", target); else history.replaceState(null, "", target);
  if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus({ preventScroll: true });
  for (const run of whenShown) run();
  return true;
}

/** Load the page as it is now, after a note was saved. */
export const reload = () => load(location.pathname + location.search + location.hash, { push: false });

/** Run a function after notes have changed, instead of loading the screen anew: it is given the names by folder. */
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
    if (!inside?.contains(event.target) || event.target.closest("input, textarea, select")) return;
    const act = actions[event.key];
    if (act && act(event) !== false) event.preventDefault();
  });
  known.push(...Object.keys(actions).map((key) => [key, actions[key].says ?? ""]));
}
const known = [];

// ------------------------------------------------------------------ what changes

let source = null;
function follow() {
  if (document.hidden || !document.body.dataset.screen || ["sign_in", "message"].includes(document.body.dataset.screen)) {
    source?.close();
    source = null;
  } else if (!source) {
    source = new EventSource("/changes");
    source.addEventListener("notes", (event) => (changed ? changed(JSON.parse(event.data)) : reload()));
    source.addEventListener("progress", () => document.getElementById("progress") && reload());
  }
}
document.addEventListener("visibilitychange", follow);
window.addEventListener("pagehide", () => { source?.close(); source = null; });
window.addEventListener("pageshow", follow);
window.addEventListener("popstate", () => location.reload());

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
      try {
        const answer = await fetch(`/names.json?q=${encodeURIComponent(field.value.trim())}`);
        notes = answer.ok ? (await answer.json()).entries.map((each) => entry(`${each.heading || each.path} - ${each.path}`, each.address)) : [];
      } catch { /* the screens are there without notes */ }
      if (turn !== asked) return;
      notes.push(entry(`Ask: ${field.value.trim()}`, `/?q=${encodeURIComponent(field.value.trim())}`));
    }
    list.replaceChildren(...notes, ...found, ...settings);
    announce(`${list.children.length} entries`);
  };
  field.addEventListener("input", fill);
  field.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); list.querySelector("a, button")?.click(); } });
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
