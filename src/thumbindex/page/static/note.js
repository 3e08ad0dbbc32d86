// Note: scrolls to the cited lines, unless the user prefers the top; a key toggles the source.
import { keys, load, shown } from "./page.js";

const staysAtTop = () => { try { return localStorage.getItem("thumbindex.stay") === "1"; } catch { return false; } };

shown((isNew) => {
  const box = document.getElementById("stay");
  if (box) {
    document.getElementById("stay-label").hidden = false;
    box.checked = staysAtTop();
    box.addEventListener("change", () => {
      try { localStorage.setItem("thumbindex.stay", box.checked ? "1" : "0"); } catch { /* storage is disabled */ }
    });
  }
  const outline = document.getElementById("outline");
  if (outline && isNew && matchMedia("(max-width: 60rem)").matches) outline.open = false;
  if (!isNew) return; // do not scroll when a saved note reloads
  const cited = document.querySelector(".cited");
  const hasOtherTarget = location.hash && location.hash !== `#L${document.getElementById("note")?.dataset.cited}`;
  if (cited && staysAtTop()) scrollTo(0, 0);
  else if (cited && !hasOtherTarget) cited.scrollIntoView({ block: "center" });
});

const source = () => load(document.getElementById("note").dataset.switch);
source.says = "show the note’s Markdown, or the rendered note";
keys({ v: source }, "main");
