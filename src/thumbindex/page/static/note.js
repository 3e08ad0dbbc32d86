// A note: the cited lines are scrolled to, unless one wishes to stay at the top, and its source is one key away.
import { keys, load, shown } from "./page.js";

const stays = () => { try { return localStorage.getItem("thumbindex.stay") === "1"; } catch { return false; } };

shown((isNew) => {
  const box = document.getElementById("stay");
  if (box) {
    document.getElementById("stay-label").hidden = false;
    box.checked = stays();
    box.addEventListener("change", () => {
      try { localStorage.setItem("thumbindex.stay", box.checked ? "1" : "0"); } catch { /* a browser that keeps nothing */ }
    });
  }
  if (!isNew) return; // a saved note moves nobody who reads
  const cited = document.querySelector(".cited");
  const asked = location.hash && location.hash !== `#L${document.getElementById("note")?.dataset.cited}`;
  if (cited && stays()) scrollTo(0, 0);
  else if (cited && !asked) cited.scrollIntoView({ block: "center" });
});

const source = () => load(document.getElementById("note").dataset.switch);
source.says = "the note as it is written, or as a page";
keys({ v: source }, "main");
