"""The client of a server on a port: a refusal is told, no answer is waited for without end. The server here is a script."""

from __future__ import annotations

import sys

import pytest

from thumbindex.errors import ThumbindexError
from thumbindex.study.http_client import HttpClient, HttpServer

SCRIPT = """
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Answers(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, answer = answer_to(asked["params"]["name"], asked["params"]["arguments"])
        told = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *arguments): pass

def answer_to(tool, arguments):
    if tool == "limited":
        return 429, {"error": "too many"}
    if tool == "refused":
        return 200, {"result": {"isError": True, "content": [{"text": "no such thing"}]}}
    return 200, {"result": {"structuredContent": arguments}}

server = HTTPServer(("127.0.0.1", 0), Answers)
print(f"http://127.0.0.1:{server.server_port}/mcp", flush=True)
server.serve_forever()
"""

PROGRAM = (sys.executable, "-c")


def test_an_answer_comes_to_the_one_who_asked():
    with HttpServer([SCRIPT], PROGRAM) as server, HttpClient(server.url) as one, HttpClient(server.url) as other:
        assert (one.call("query", query="a"), other.call("query", query="b")) == ({"query": "a"}, {"query": "b"})


@pytest.mark.parametrize(("tool", "told"), [("limited", "too many"), ("refused", "no such thing")])
def test_a_refusal_is_raised(tool: str, told: str):
    with HttpServer([SCRIPT], PROGRAM) as server, HttpClient(server.url) as client, pytest.raises(ThumbindexError, match=told):
        client.call(tool)


def test_a_server_that_has_ended_is_told_of():
    with HttpServer([SCRIPT], PROGRAM) as server, HttpClient(server.url) as client:
        server._end()
        with pytest.raises(ThumbindexError, match="query: no answer"):
            client.call("query")


def test_a_server_that_does_not_begin_is_told_of():
    with pytest.raises(ThumbindexError, match="ended before"):
        HttpServer(["raise SystemExit"], PROGRAM).__enter__()
