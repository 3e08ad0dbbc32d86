"""An MCP server that searches as with ripgrep: the notes with most of the query's words first.

python tests/bench/ripgrep_server.py RIPGREP FOLDER
"""

import re
import subprocess
import sys
from collections import Counter

from mcp.server.mcpserver import MCPServer

program, folder = sys.argv[1:]
server = MCPServer("ripgrep")


@server.tool()
def search(query: str, limit: int = 10) -> dict[str, list[dict[str, str]]]:
    """Rank notes by how many words of the query they hold, then by matching lines."""
    words, lines = Counter[str](), Counter[str]()
    for word in set(re.findall(r"\w+", query)):
        counted = subprocess.run(
            [program, "--count", "--ignore-case", "--word-regexp", "--fixed-strings", word, "."],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        for row in counted.stdout.splitlines():
            path, _, count = row.rpartition(":")
            words[path] += 1
            lines[path] += int(count)
    ranked = sorted(words, key=lambda path: (-words[path], -lines[path], path))
    return {"results": [{"path": path.removeprefix("./")} for path in ranked[:limit]]}


server.run()
