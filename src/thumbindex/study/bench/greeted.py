"""A program: a server and its client in one process; prints how many modules are loaded when the tools are listed."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Sequence

from thumbindex.errors import ThumbindexError

MESSAGES = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "thumbindex bench", "version": "1"}},
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)


def count_modules(arguments: Sequence[str]) -> int:
    """Run the program with a server's options; return how many modules are loaded, those of this program's own start too."""
    # -P: the working directory may be a vault, whose files must never be imported.
    done = subprocess.run([sys.executable, "-P", "-m", __name__, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ThumbindexError(f"A server did not start: {(done.stderr.strip() or 'no reason was given').splitlines()[-1]}")
    return int(done.stdout)


def main() -> None:
    """Be server and client at once: who is in the process sees what is loaded at the moment when the answer arrives."""
    requests, answers = os.pipe(), os.pipe()
    told = os.dup(1)
    os.dup2(requests[0], 0)
    os.dup2(answers[1], 1)

    def ask() -> None:
        with os.fdopen(requests[1], "w", encoding="utf-8") as out, os.fdopen(answers[0], encoding="utf-8") as incoming:
            for message in MESSAGES:
                out.write(json.dumps(message) + "\n")
                out.flush()
                if "id" in message:
                    incoming.readline()
            os.write(told, str(len(sys.modules)).encode())
            os._exit(0)

    threading.Thread(target=ask).start()
    sys.argv[1:1] = ["serve"]
    runpy.run_module("thumbindex", run_name="__main__")


if __name__ == "__main__":
    main()
