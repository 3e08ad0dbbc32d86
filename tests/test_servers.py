"""Clients of server processes: several ask at once, a refusal is raised, nothing is waited for
without end.

The servers here are scripts.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from servers import ServerProcess, await_start, http_client, http_server
from thumbindex.errors import ThumbindexError

GREETED = """
import json, sys, time
def say(**message): print(json.dumps(message), flush=True)
def take(): return json.loads(sys.stdin.readline())
def answer(asked, **result): say(id=asked["id"], result=result)
answer(take()); take(); answer(take())
"""

HTTP = r"""
import json
from http.server import BaseHTTPRequestHandler, HTTPServer

class Answers(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["params"]
        refused = {"result": {"isError": True, "content": [{"text": "no such thing"}]}}
        answered = {"result": {"structuredContent": asked["arguments"]}}
        answers = {"query": answered, "refused": refused}
        answer = answers.get(asked["name"], {"error": "too many"})
        written = json.dumps(answer).encode()
        kind = "application/json"
        if asked["arguments"].get("query") == "slow":
            # what took long comes as an event, after pings
            kind = "text/event-stream"
            written = b": ping\r\n\r\nevent: message\r\ndata: " + written + b"\r\n\r\n"
        self.send_response(429 if "error" in answer else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(written)))
        self.end_headers()
        self.wfile.write(written)

    def log_message(self, *arguments): pass

server = HTTPServer(("127.0.0.1", 0), Answers)
print(f"http://127.0.0.1:{server.server_port}/mcp", flush=True)
server.serve_forever()
"""


def server(then: str, greeted: str = GREETED) -> ServerProcess:
    return ServerProcess([greeted + then], program=(sys.executable, "-c"))


def test_a_slow_answer_keeps_no_other_question_waiting() -> None:
    turned = (
        "first, second = take(), take()\nfor each in (second, first): answer(each, "
        'of=each["method"])\nsys.stdin.read()'
    )
    with server(turned) as asked, ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda method: asked.request(method, {}), ("a", "b")))
    assert answers == [{"of": "a"}, {"of": "b"}]


def test_only_the_answer_is_taken_for_one_and_an_error_is_raised() -> None:
    chatty = (
        'asked = take()\nsay(method="notifications/x")\nsay(id=asked["id"], method="ping")\n'
        "answer(asked, right=True)\n"
    )
    with server(
        f'{chatty}say(id=take()["id"], error={{"message": "no such thing"}})\nsys.stdin.read()'
    ) as asked:
        assert asked.request("a", {}) == {"right": True}
        with pytest.raises(ThumbindexError, match="b: no such thing"):
            asked.request("b", {})


def test_whoever_waits_when_the_server_ends_is_told_and_so_is_who_asks_later() -> None:
    with server("take()") as asked:
        for _ in range(2):
            with pytest.raises(ThumbindexError, match="a: the server has ended"):
                asked.request("a", {})


def test_a_server_that_refuses_to_begin_is_not_left_running() -> None:
    refusing = server(
        "",
        'import sys, time\nsys.stdin.readline()\nprint(\'{"id": 1, "error": {}}\', '
        "flush=True)\ntime.sleep(60)",
    )
    with pytest.raises(ThumbindexError, match="initialize"):
        refusing.__enter__()
    assert refusing.process.returncode is not None


@pytest.mark.parametrize(
    ("results", "complaint"),
    [
        ("[]", r"started\.md was not found within 0\.3 s"),
        ('[{"text": "markstarted"}]', "vectors were still missing"),
    ],
)
def test_a_server_that_does_not_follow_is_not_waited_for_without_end(
    results: str, complaint: str, tmp_path: Path
) -> None:
    status = (
        f'{{"results": {results}, "folders": [{{"folder": "{tmp_path.name}", "index": '
        f'{{"pending": 1}}}}]}}'
    )
    with (
        server(f"while True: answer(take(), structuredContent={status})") as asked,
        pytest.raises(ThumbindexError, match=complaint),
    ):
        await_start(asked.call, tmp_path, seconds=0.3)


def test_over_http_each_client_gets_its_answer_and_its_refusal() -> None:
    with (
        http_server([HTTP], (sys.executable, "-c")) as url,
        http_client(url) as one,
        http_client(url) as other,
    ):
        assert (one("query", query="a"), other("query", query="slow")) == (
            {"query": "a"},
            {"query": "slow"},
        )
        for tool, message in (("limited", "too many"), ("refused", "no such thing")):
            with pytest.raises(ThumbindexError, match=message):
                one(tool)
    with http_client(url) as late, pytest.raises(ThumbindexError, match="query: no answer"):
        late("query")
    with (
        pytest.raises(ThumbindexError, match="ended before"),
        http_server(["raise SystemExit"], (sys.executable, "-c")),
    ):
        pass
