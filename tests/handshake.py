"""A program: a server with the given options and its client in one process; prints how many modules
are loaded when the tools are listed.
"""

import json
import os
import runpy
import sys
import threading

CLIENT = {"name": "thumbindex tests", "version": "1"}
MESSAGES = (
    {
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT},
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/list"},
)


def ask(requests: int, answers: int, printed: int) -> None:
    """Be the client: who is in the process sees what is loaded at the moment when the answer
    arrives.
    """
    with (
        os.fdopen(requests, "w", encoding="utf-8") as out,
        os.fdopen(answers, encoding="utf-8") as incoming,
    ):
        for message in MESSAGES:
            out.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            out.flush()
            if "id" in message:
                incoming.readline()
        os.write(printed, str(len(sys.modules)).encode())
        os._exit(0)


if __name__ == "__main__":
    (server_in, requests), (answers, server_out), printed = os.pipe(), os.pipe(), os.dup(1)
    os.dup2(server_in, 0)
    os.dup2(server_out, 1)
    threading.Thread(target=ask, args=(requests, answers, printed)).start()
    sys.argv[1:1] = ["serve"]
    runpy.run_module("thumbindex", run_name="__main__")
