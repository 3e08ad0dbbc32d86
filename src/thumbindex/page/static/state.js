// State: refreshes while indexing runs.
import { reload } from "./page.js";

setInterval(() => { if (!document.hidden && document.getElementById("progress")) reload(); }, 2000);
