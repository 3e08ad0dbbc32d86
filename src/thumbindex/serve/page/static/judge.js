// Judge: the screen is loaded again while a run is under way.
import { onChange, reload } from "./page.js";

onChange(() => {});
setInterval(() => { if (!document.hidden && document.getElementById("stop")) reload(); }, 1500);
