"""Count the ways: which modules of ours run for one edit, and for one question, in a warm server.

    python tests/ways.py [--src DIR]

A module counts when a line of one of its functions runs; what runs while it is imported does not,
nor do model, errors, settings and text. The edit: in the process that indexes, from the writing of
a file to the moment when its words can be searched; then the same with its vectors. The question:
one call of `query` in the server, less what its threads do when nobody asks. Both are told by a
tracer in each process.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from servers import SERVE, ServerProcess, await_meaning, has_all_vectors
from waiting import until

ROOT = Path(__file__).resolve().parents[1]
SYNC = "# Sync\n\nPress the green button to begin. See [[canvas]].\n"
NOTES = {
    "sync.md": SYNC,
    "canvas.md": "# Canvas\n\nDraw boxes and arrows on an endless whiteboard.\n",
    "limits.md": "# Limits\n\nThe free plan allows 10 gigabytes of attachments.\n",
}

NOT_COUNTED = {"model.py", "errors.py", "settings.py", "text.py"}
IDLE_SECONDS = 3.0  # longer than any pause of a server's threads

TRACER = """
import json, os, sys, threading, time
own, told, hits, armed = {own!r}, {told!r}, set(), False

def line(frame, event, arg):
    if armed:
        hits.add((threading.get_ident(), frame.f_code.co_filename[len(own):]))
    return line

def call(frame, event, arg):
    is_function = frame.f_code.co_flags & 1  # bodies of modules and classes are not optimized
    is_own = is_function and frame.f_code.co_filename.startswith(own)
    return line(frame, event, arg) if is_own else None

def watch():
    global armed
    while True:
        wanted = os.path.exists(told + "/on")
        if wanted and not armed:
            hits.clear()
        if armed and not wanted:
            armed = False
            with open(told + "/coming" + str(os.getpid()), "w") as file:
                json.dump(sorted(hits), file)
            os.rename(file.name, told + "/" + str(os.getpid()))
        armed = wanted
        time.sleep(0.005)

threading.Thread(target=watch, daemon=True).start()
threading.settrace(call)
sys.settrace(call)
"""


class Traced:
    """A warm server of a small vault, whose processes say which modules ran."""

    def __init__(self, src: Path, scratch: Path, *, with_model: bool) -> None:
        self.told = scratch / "told"
        self.told.mkdir()
        self.vault = scratch / "vault"
        self.vault.mkdir()
        for path, text in NOTES.items():
            (self.vault / path).write_text(text, encoding="utf-8")
        tracer = TRACER.format(own=str(src / "thumbindex") + "/", told=str(self.told))
        (scratch / "tracer").mkdir()
        (scratch / "tracer" / "sitecustomize.py").write_text(tracer, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": f"{scratch / 'tracer'}:{src}"}
        options = [
            "--folder",
            str(self.vault),
            "--index",
            str(scratch / "index"),
            "--set=serve.watch.reconcile_seconds=600",
            f"--set=encode.embed.model={'all-MiniLM-L6-v2' if with_model else '/no/such/model'}",
        ]
        self.server = ServerProcess(options, SERVE, environment, scratch)
        self.server.initialize()
        if with_model:
            self.await_vectors()
        for n in range(3):  # warm: each way is gone before it is looked at
            self.edit(f"The {n}. warming edit.", with_model)
        time.sleep(8)  # what is done at leisure after an edit is over

    def edit(self, text: str, with_model: bool) -> None:
        (self.vault / "sync.md").write_text(f"{SYNC}{text}\n", encoding="utf-8")
        self.server.call("query", query="green button", wait_fresh=30)
        if with_model:
            self.await_vectors()
        time.sleep(0.5)

    def await_vectors(self) -> None:
        await_meaning(self.server.call, "green button")
        assert until(lambda: has_all_vectors(self.server.call, self.vault.name), 60)

    def ran(self, act: Callable[[], object]) -> tuple[set[tuple[int, str]], set[tuple[int, str]]]:
        """Return what ran in the server and in its child while something was done, each with its
        thread.
        """
        (self.told / "on").touch()
        time.sleep(0.2)
        act()
        (self.told / "on").unlink()
        own = self.told / str(self.server.process.pid)
        until(lambda: own.exists() and len(list(self.told.glob("[0-9]*"))) > 1)
        found = {
            path: {(thread, name) for thread, name in json.loads(path.read_text())}
            for path in self.told.glob("[0-9]*")
        }
        for path in found:
            path.unlink()
        return found.pop(own), set().union(*found.values())


def show(title: str, pairs: set[tuple[int, str]]) -> None:
    names = sorted({name for _, name in pairs} - NOT_COUNTED)
    print(f"{title}: {len(names)} modules\n  {' '.join(names)}\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--src", type=Path, default=ROOT / "src")
    src = parser.parse_args().src.resolve()
    for with_model in (False, True):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
            traced = Traced(src, Path(scratch), with_model=with_model)
            # - called at once
            _, edit = traced.ran(lambda: traced.edit("One more sentence.", with_model))  # noqa: B023
            show("one edit, its vectors too" if with_model else "one edit", edit)
            if with_model:
                idle, _ = traced.ran(lambda: time.sleep(IDLE_SECONDS))
                # - called at once
                asked, _ = traced.ran(lambda: traced.server.call("query", query="boxes and arrows"))  # noqa: B023
                show("one query", asked - idle)
            traced.server.end()


if __name__ == "__main__":
    main()
