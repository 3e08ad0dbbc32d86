// State: how far indexing is while it is under way.
import { move, reload, shown } from "./page.js";

// A comparison with the disk is made once, not each time that something changes.
shown(() => {
  const without = new URLSearchParams(location.search);
  without.delete("look");
  move(location.pathname + (without.size ? `?${without}` : "") + location.hash);
});
setInterval(() => { if (!document.hidden && document.getElementById("progress")) reload(); }, 2000);
