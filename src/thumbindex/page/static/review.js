// Review: one key a decision, while the focus is on the cluster.
import { announce, keys, load, shown } from "./page.js";

const settle = () => (document.getElementById("cluster") ?? document.getElementById("main")).focus({ preventScroll: true });
shown(() => { if (!document.activeElement || document.activeElement === document.body) settle(); });

let isSending = false; // a second key would decide of the same cluster again
async function send(form, button) {
  if (isSending) return;
  isSending = true;
  try {
    await decide(form, button);
  } catch {
    announce("The server does not answer.");
  } finally {
    isSending = false;
  }
}

async function decide(form, button) {
  const given = new URLSearchParams(new FormData(form));
  if (button?.name) given.set(button.name, button.value);
  const answer = await fetch(form.action, { method: "POST", body: given, redirect: "follow" });
  if (!answer.ok) return announce("This could not be decided.");
  await load(answer.url, { push: true });
  settle();
  return announce(document.getElementById("last")?.textContent.trim() ?? "");
}

const press = (id) => () => {
  const target = document.getElementById(id);
  if (!target && id === "undo") announce("Nothing to undo here: what was decided is listed under “decided”.");
  if (!target) return false;
  if (target.form) send(target.form, target);
  else load(target.getAttribute("href")).then(settle);
  return true;
};
const [same, apart, keep, undo] = ["same", "apart", "keep", "undo"].map(press);
same.says = "Review: the same, show it once";
apart.says = "Review: apart, keep both";
keep.says = "Review: later";
undo.says = "Review: undo the last decision";
keys({ s: same, a: apart, k: keep }, "cluster");
keys({ u: undo }, "main");

document.addEventListener("submit", (event) => {
  if (!event.target.matches(".decide, .done")) return;
  event.preventDefault();
  send(event.target, event.submitter);
});
