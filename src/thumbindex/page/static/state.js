// State: how far indexing is while it is under way.
import { reload } from "./page.js";

setInterval(() => { if (!document.hidden && document.getElementById("progress")) reload(); }, 2000);
