// Health: decide without leaving the page, and with one key while a comparison has the focus.
import { announce, keys, load, shown } from "./page.js";

const focusCluster = () => {
  const cluster = document.getElementById("cluster");
  (cluster ?? document.getElementById("main")).focus({ preventScroll: true });
  cluster?.scrollIntoView({ block: "nearest" });
};
shown(() => { if (!document.activeElement || document.activeElement === document.body) focusCluster(); });

let isSending = false; // ignores a second key for the same cluster
async function send(form, button) {
  if (isSending) return;
  isSending = true;
  try {
    await decide(form, button);
  } catch {
    announce("The server does not respond.");
  } finally {
    isSending = false;
  }
}

async function decide(form, button) {
  const body = new URLSearchParams(new FormData(form));
  if (button?.name) body.set(button.name, button.value);
  const response = await fetch(form.action, { method: "POST", body, redirect: "follow" });
  if (!response.ok) return announce("The decision was not saved.");
  await load(response.url, { push: true });
  focusCluster();
  return announce(document.getElementById("last")?.textContent.trim() ?? "");
}

const press = (id) => () => {
  const target = document.getElementById(id);
  if (!target && id === "undo") announce("Nothing to undo. Earlier decisions are listed under “Decided”.");
  if (!target) return false;
  if (target.form) send(target.form, target);
  else load(target.getAttribute("href")).then(focusCluster);
  return true;
};
const [same, apart, keep, undo] = ["same", "apart", "keep", "undo"].map(press);
same.says = "Health: same, show once";
apart.says = "Health: keep both";
keep.says = "Health: later";
undo.says = "Health: undo the last decision";
keys({ s: same, a: apart, k: keep }, "cluster");
keys({ u: undo }, "main");

document.addEventListener("submit", (event) => {
  if (!event.target.matches(".decide, .done")) return;
  event.preventDefault();
  send(event.target, event.submitter);
});
