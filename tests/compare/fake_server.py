"""An MCP server over stdio that answers one tool, `search`, from a few lines; by its first argument
it hangs, dies or fails instead of answering.
"""

import json
import sys
import time

PATHS = {"apples": ["apples.md", "boats.md"], "boats": ["boats.md"]}


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            sys.stdout.write(
                json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer(request)})
                + "\n"
            )
            sys.stdout.flush()


def answer(request: dict) -> dict:
    if request["method"] == "initialize":
        version = request["params"]["protocolVersion"]
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "fake", "version": "1"},
        }
    if request["method"] == "tools/list":
        return {"tools": [{"name": "search", "inputSchema": {"type": "object"}}]}
    if "hang" in sys.argv:
        time.sleep(600)
    if "die" in sys.argv:
        sys.exit(3)
    if "fail" in sys.argv:
        return {"content": [{"type": "text", "text": "no such table"}], "isError": True}
    found = [
        path
        for word, paths in PATHS.items()
        if word in request["params"]["arguments"]["query"]
        for path in paths
    ]
    return {
        "content": [
            {
                "type": "text",
                "text": json.dumps({"results": [{"path": path} for path in dict.fromkeys(found)]}),
            }
        ]
    }


if __name__ == "__main__":
    main()
