"""What clients are told: transcripts over standard input and output in every version of the
protocol, and over HTTP; and the other commands.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
LATEST = VERSIONS[-1]
NEW = "# New\n\nThe heron stands in the reeds. See [[sync]].\n"
LONG = "# Long\n" + "".join(
    f"\n## Part {n}\n\n"
    + "".join(f"Row {n}-{m} adds {n * m} to {n ^ m}. " for m in range(40))
    + "\n"
    for n in range(20)
)
NOTES = {
    "sync.md": "---\ntags: [guide/setup]\ndate: 2026-03-01\naliases: [syncing]\n---\n# Sync\n\n"
    "## Set up\n\n"
    "Press the green button to begin syncing.\n\n## Conflicts\n\n"
    "When two devices edit one note, the newer note wins. "
    "See [[plugins/canvas]] and [[nowhere]].\n",
    "plugins/canvas.md": (
        "# Canvas\n\nDraw boxes and arrows on an endless whiteboard. See [[sync]].\n"
    ),
    "plugins/graph view.md": (
        "---\ndate: 2020-01-01\n---\n# Graph view\n\nShows how notes link to each other as dots "
        "and lines.\n"
    ),
    "copy/canvas.md": "# Canvas\n\nDraw boxes and arrows on an endless whiteboard. See [[sync]].\n",
    "limits.md": (
        "# Limits\n\nThe free plan of the service allows 10 gigabytes of attachments in each "
        "vault.\n"
    ),
    "old limits.md": (
        "---\ndate: 2019-05-05\n---\n# Limits\n\nThe free plan of the service allows 5 gigabytes "
        "of attachments in each vault.\n"
    ),
    "diary.md": "---\ntags: [private]\n---\n# Diary\n\nThe heron is my secret bird.\n",
    "long.md": LONG,
}
TEAM = {
    "handbook/leave.md": (
        "# Leave\n\nEverybody takes thirty days of leave a year. See [[travel]].\n"
    ),
    "handbook/travel.md": "# Travel\n\nBook trains early and keep the tickets.\n",
    "salaries/bands.md": (
        "# Bands\n\nThe zirconium band earns ninety thousand a year. See [[leave]].\n"
    ),
}
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    *(
        ("query", {"query": "two devices edit one note", **more})
        for more in ({}, {"explain": True}, {"max_tokens": 300}, {"limit": 1})
    ),
    ("query", {"query": "gigabytes of attachments", "since": "2018-01-01"}),
    ("query", {"query": "boxes and arrows", "path": ["copy/**"]}),
    ("query", {"query": "green button", "tag": "guide", "wait_fresh": 5}),
    ("query", {"query": "how do I cook rice with saffron"}),
    ("query", {"query": "green button", "why": "plugins/canvas.md"}),
    ("query", {"query": "green button", "why": "no such.md"}),
    *(
        ("read", {"path": path})
        for path in ("sync.md", "long.md", "sync", "diary.md", "../secret.md", "/etc/passwd")
    ),
    *(
        ("read", {"path": "long.md", **more})
        for more in (
            {"heading": "Part 3"},
            {"lines": "3-9"},
            {"lines": "9-3"},
            {"heading": "Prat 3"},
        )
    ),
    *(
        ("outline", each)
        for each in ({}, {"path": "sync.md"}, {"path": "plugins"}, {"path": "no such"})
    ),
    *(("related", {"path": path}) for path in ("sync.md", "plugins/canvas.md", "gone.md")),
    *(
        ("query", each)
        for each in (
            {},
            {"query": " "},
            {"query": "x", "limit": 0},
            {"query": "x", "limt": 3},
            {"query": "x", "folder": "none"},
        )
    ),
    *(
        ("query", {"query": "x", **each})
        for each in (
            {"since": "soon"},
            {"tag": 5},
            {"max_tokens": 5},
            {"wait_fresh": 99},
            {"seen": ["nonsense"]},
        )
    ),
    ("serch", {"query": "x"}),
)
TEMPLATE = {"type": "ref/resource", "uri": "thumbindex://{folder}/{+path}"}
REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    *((f"{each}/list", {}) for each in ("tools", "resources", "resources/templates", "prompts")),
    ("resources/list", {"cursor": "nonsense"}),
    ("prompts/get", {"name": "answer_from_notes", "arguments": {"question": "Who wins?"}}),
    ("prompts/get", {"name": "other"}),
    *(
        ("completion/complete", {"ref": TEMPLATE, "argument": {"name": name, "value": value}})
        for name, value in (("folder", ""), ("path", "pl"))
    ),
    *(
        ("resources/read", {"uri": f"thumbindex://vault/{path}"})
        for path in ("sync.md", "plugins/graph%20view.md", "gone.md", "diary.md", "../x.md")
    ),
    ("no/such", {}),
)


def write(root: Path, notes: dict[str, str], day: int = 1_767_225_600) -> Path:
    for path, text in notes.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
        os.utime(root / path, (day, day))
    return root


def with_meta(version: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return a request's parameters as the version has them: from 2026 on each request says who
    asks.
    """
    about = {
        "protocolVersion": version,
        "clientCapabilities": {},
        "clientInfo": {"name": "golden", "version": "1"},
    }
    return (
        {
            **params,
            "_meta": {f"io.modelcontextprotocol/{name}": each for name, each in about.items()},
        }
        if version == LATEST
        else params
    )


class Stdio:
    """A server in a process of its own, and what it says."""

    def __init__(
        self, product: Any, version: str, *options: str, roots: list[str] | None = None
    ) -> None:
        self.product, self.version, self.roots, self.heard = product, version, roots, []
        command = [sys.executable, "-P", "-m", "thumbindex", "serve", *options, *product.model]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = product.started(command, **pipes)
        self.answers: dict[Any, queue.Queue[Any]] = {}
        self.ids = itertools.count(1)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        for message in map(json.loads, self.process.stdout):
            if "method" not in message:
                self.answers[message.pop("id")].put(message)
                continue
            self.heard.append(message)
            if "id" in message:
                self.say(
                    {
                        "id": message["id"],
                        "result": {"roots": [{"uri": uri} for uri in self.roots or ()]},
                    }
                )

    def say(self, message: dict[str, Any]) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def begin(self, method: str, params: dict[str, Any], number: Any = None) -> Any:
        number = number or next(self.ids)
        self.answers[number] = queue.Queue()
        self.say({"id": number, "method": method, "params": with_meta(self.version, params)})
        return number

    def end_of(self, number: Any, seconds: float = 60) -> Any:
        with contextlib.suppress(queue.Empty):
            return self.answers[number].get(timeout=seconds)
        return "no answer"

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        return self.end_of(self.begin(method, params))

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def greet(self) -> Any:
        if self.version == LATEST:
            return self.ask("server/discover", {})
        capabilities = {"roots": {}} if self.roots else {}
        client = {"clientInfo": {"name": "golden", "version": "1"}, "capabilities": capabilities}
        answer = self.ask("initialize", {"protocolVersion": self.version, **client})
        self.say({"method": "notifications/initialized"})
        return answer

    def await_vectors(self) -> None:
        """Ask, under names that nothing else has, until the model is loaded and every text has a
        vector.
        """
        poll = (
            "tools/call",
            {"name": "query", "arguments": {"query": "green button", "explain": True}},
        )
        whole = ("search_vector", '"pending": 0')
        until(
            lambda: all(
                each in json.dumps(self.end_of(self.begin(*poll, f"poll {time.monotonic()}")))
                for each in whole
            )
        )

    def told(self, *expected: str) -> list[Any]:
        """Return what was said besides answers, once each, when all that is expected is there."""
        until(lambda: all(each in json.dumps(self.heard) for each in expected))
        time.sleep(0.7)
        heard, self.heard = self.heard, []
        return sorted(
            {
                json.dumps({**each, "id": 0} if "id" in each else each, sort_keys=True)
                for each in heard
            }
        )

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(30)


def until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(0.1)


def over_stdio(product: Any, version: str) -> Iterator[tuple[str, Any]]:
    vault = write(product.scratch / version / "vault", NOTES)
    options = ["--folder", str(vault), "--index", str(vault.parent / "index")]
    product.command("index", *options, *product.model)
    server = Stdio(product, version, *options)
    yield "greeting", server.greet()
    server.await_vectors()
    for method, params in (
        *REQUESTS,
        *(("tools/call", {"name": name, "arguments": each}) for name, each in CALLS),
    ):
        yield f"{method} {json.dumps(params)[:90]}", server.ask(method, params)
    ids = [
        each["id"]
        for each in server.call("query", query="boxes and arrows")["result"]["structuredContent"][
            "results"
        ]
    ]
    yield "seen", server.call("query", query="boxes and arrows", seen=ids)
    yield "status", server.call("status")
    uris = [f"thumbindex://vault/{path}" for path in ("sync.md", "new%2Emd", "diary.md")]
    streams = []
    if version == LATEST:
        streams = [
            server.begin(
                "subscriptions/listen",
                {"notifications": {"resourcesListChanged": True, "resourceSubscriptions": uris}},
            )
        ]
    else:
        yield "level", server.ask("logging/setLevel", {"level": "debug"})
        yield (
            "subscribing",
            [
                server.ask("resources/subscribe", {"uri": uri})
                for uri in [*uris, "thumbindex://none/x.md", "http://x"]
            ],
        )
    yield "told before a change", server.told()
    write(vault, {"sync.md": NOTES["sync.md"].replace("green", "blue")}, 1_767_312_000)
    yield "told of a change", server.told("vault/sync.md")
    write(vault, {"new.md": NEW})
    yield "told of a new note", server.told("list_changed", "new%2Emd")
    found = server.call("query", query="where does the heron stand", wait_fresh=30)["result"][
        "structuredContent"
    ]
    yield (
        "found at once",
        [[each["path"] for each in found["results"]][:1], found["index"]["fresh"]],
    )
    server.await_vectors()
    yield "found", server.call("query", query="where does the heron stand")
    for stream in streams:
        server.say({"method": "notifications/cancelled", "params": {"requestId": stream}})
        yield "stream's end", server.end_of(stream, 2)
    if version != LATEST:
        yield "unsubscribing", server.ask("resources/unsubscribe", {"uri": uris[0]})
    (vault / "new.md").unlink()
    yield "told of one that went", server.told(*([] if streams else ["list_changed"]))
    write(vault, {"late.md": "# Late\n\nThe ibis comes late.\n"})
    waiting = server.begin(
        "tools/call", {"name": "query", "arguments": {"query": "ibis", "wait_fresh": 60}}
    )
    server.say({"method": "notifications/cancelled", "params": {"requestId": waiting}})
    yield "cancelled", [server.end_of(waiting, 3), server.call("read", path="sync.md", lines="1-2")]
    server.close()
    yield "end", server.process.returncode


def with_roots(product: Any, version: str) -> Iterator[tuple[str, Any]]:
    vault = write(product.scratch / f"roots-{version}" / "vault", NOTES)
    product.command(
        "index", "--folder", str(vault), "--index", str(vault.parent / "index"), *product.model
    )
    roots = [vault.as_uri(), "file:///no/such", product.scratch.parent.as_uri()]
    server = Stdio(product, version, "--index", str(vault.parent / "index"), roots=roots)
    yield "greeting", server.greet()
    server.await_vectors()
    yield "asked for roots", server.told()
    yield "status", server.call("status")
    yield "query", server.call("query", query="green button", limit=1)
    server.close()


def over_http(product: Any) -> Iterator[tuple[str, Any]]:
    place = write(product.scratch / "team", TEAM)
    tables = [("handbook", '["alice", "bob"]'), ("salaries", '["alice"]')]
    folders = "".join(
        f'[[folders]]\nname = "{name}"\npath = "{place / name}"\ntokens = {tokens}\n'
        for name, tokens in tables
    )
    (place / "config.toml").write_text(
        folders + '[serve.http]\nmetrics = ["prometheus"]\nport = 0\n'
    )
    made = {
        name: product.run("-m", "thumbindex", "token", name, "--token-file", str(place / "tokens"))
        for name in ("alice", "bob", "prometheus")
    }
    tokens = {name: each.stdout.strip() for name, each in made.items()}
    options = [
        "--config",
        str(place / "config.toml"),
        "--index",
        str(place / "index"),
        *product.model,
    ]
    product.command("index", *options)
    command = [
        sys.executable,
        "-P",
        "-m",
        "thumbindex",
        "serve",
        "--http",
        "--json",
        "--token-file",
        str(place / "tokens"),
        *options,
    ]
    server = product.started(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    address = json.loads(server.stdout.readline())["url"].split("/")[2]
    shown = (
        "Content-Type",
        "WWW-Authenticate",
        "Allow",
        "Retry-After",
        "Cache-Control",
        "X-Content-Type-Options",
    )

    def send(
        path: str = "/mcp",
        method: str = "POST",
        body: Any = None,
        token: str = "alice",
        stream: float = 0,
        **headers: str,
    ) -> Any:
        connection = http.client.HTTPConnection(address, timeout=stream or 60)
        about = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        about |= {"Authorization": f"Bearer {tokens.get(token, token)}"} if token else {}
        data = json.dumps(body) if isinstance(body, dict) else body
        connection.request(
            method,
            path,
            data,
            {**about, **{name.replace("_", "-"): each for name, each in headers.items()}},
        )
        answer = connection.getresponse()
        lines: list[str] = []
        with contextlib.suppress(TimeoutError, http.client.IncompleteRead):
            for line in iter(answer.readline, b""):
                lines.append(line.decode().rstrip())
        data = [line.removeprefix("data: ") for line in lines if line.startswith(("data: {", "{"))]
        told = [json.loads(each) for each in data] if stream or data else lines
        return {
            "status": answer.status,
            **{name: answer.getheader(name) for name in shown},
            "body": told,
        }, answer.getheader("Mcp-Session-Id")

    def ask(method: str, params: dict[str, Any] | None = None, **more: Any) -> Any:
        about = {"MCP_Protocol_Version": LATEST, "Mcp_Method": method} | (
            {"Mcp_Name": params["name"]} if params and "name" in params else {}
        )
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": method,
            "params": with_meta(LATEST, params or {}),
        }
        return send(body=body, **{**about, **more})[0]

    def call(name: str, token: str = "alice", **arguments: Any) -> Any:
        return ask("tools/call", {"name": name, "arguments": arguments}, token=token)

    until(lambda: send("/ready", "GET")[0]["status"] == 200)
    until(lambda: "search_vector" in json.dumps(call("query", query="zirconium", explain=True)))
    for path in (
        "/health",
        "/ready",
        "/metrics",
        "/mcp",
        "/mcp/",
        "/no",
        "/.well-known/oauth-protected-resource",
    ):
        for token in ("", "alice"):
            yield (
                f"GET {path} {token}",
                send(path, "GET", token=token, Accept="application/json")[0],
            )
    names = send("/metrics", "GET", token="prometheus")[0]
    yield (
        "metrics",
        {
            **names,
            "body": sorted(
                {
                    line if line.startswith("#") else re.split("[{ ]", line)[0]
                    for line in names["body"]
                }
            ),
        },
    )
    asked: list[tuple[str, dict[str, Any]]] = [
        ("query", {"query": "zirconium band"}),
        ("query", {"query": "days of leave", "explain": True}),
    ]
    asked += [
        ("status", {}),
        ("outline", {}),
        ("read", {"path": "bands.md"}),
        ("related", {"path": "leave.md"}),
    ]
    asked += [("query", {"query": "x", "folder": "salaries"})]
    for token in ("", "wrong", "alice", "bob", "prometheus"):
        for method in ("server/discover", "tools/list", "resources/list", "prompts/list"):
            yield f"{token} {method}", ask(method, token=token)
        for name, arguments in asked:
            yield f"{token} {name} {arguments}", call(name, token, **arguments)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": with_meta(LATEST, {})}
    yield "no JSON", send(body="{")[0]
    yield "too large", send(body=" " * 1_100_000)[0]
    wrong = [
        {"Host": "evil.example"},
        {"Origin": "https://evil.example"},
        {"MCP_Protocol_Version": "1999-01-01"},
        {"Mcp_Method": "ping"},
    ]
    for headers in [*wrong, {"Accept": "x/y"}]:
        yield (
            f"{headers}",
            send(
                body=body, **{"MCP_Protocol_Version": LATEST, "Mcp_Method": "tools/list", **headers}
            )[0],
        )
    yield "PUT", send(method="PUT", body=body)[0]
    greeting = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "golden", "version": "1"},
    }
    heard: dict[str, Any] = {}
    for token in ("alice", "bob"):
        yield (
            f"{token} initialize",
            (
                opened := send(
                    body={**body, "method": "initialize", "params": greeting}, token=token
                )
            )[0],
        )
        about = {
            "token": token,
            "Mcp_Session_Id": opened[1] or "",
            "MCP_Protocol_Version": "2025-06-18",
        }
        yield (
            f"{token} initialized",
            send(body={"jsonrpc": "2.0", "method": "notifications/initialized"}, **about)[0],
        )
        uris = ["thumbindex://salaries/bands.md", "thumbindex://handbook/leave.md"]
        for uri in uris:
            yield (
                f"{token} subscribe {uri}",
                send(
                    body={**body, "method": "resources/subscribe", "params": {"uri": uri}}, **about
                )[0],
            )
        filter_ = {"notifications": {"resourcesListChanged": True, "resourceSubscriptions": uris}}
        threading.Thread(
            target=lambda t, a: heard.update({t: send(method="GET", stream=10, **a)[0]}),
            args=(token, about),
        ).start()

        def listen(token: str, params: Any) -> None:
            heard[f"{token} listens"] = ask("subscriptions/listen", params, token=token, stream=10)

        threading.Thread(target=listen, args=(token, filter_)).start()
        yield (
            f"{token} with the other's session",
            send(body=body, **{**about, "token": "bob" if token == "alice" else "alice"})[0],
        )
        heard[f"{token} session"] = about
    time.sleep(1)
    write(
        place,
        {
            "salaries/bands.md": TEAM["salaries/bands.md"].replace("ninety", "eighty"),
            "salaries/new.md": NEW,
        },
        1_767_312_000,
    )
    time.sleep(1)
    write(
        place,
        {"handbook/leave.md": TEAM["handbook/leave.md"].replace("thirty", "forty")},
        1_767_312_000,
    )
    until(lambda: len(heard) == 6)
    for token in ("alice", "bob"):
        for each in (heard[token], heard[f"{token} listens"]):
            yield (
                f"{token} heard",
                each
                | {"body": sorted({json.dumps(said, sort_keys=True) for said in each["body"]})},
            )
        yield (
            f"{token} leaves",
            [
                send(method="DELETE", **heard[f"{token} session"])[0],
                send(body=body, **heard[f"{token} session"])[0],
            ],
        )
    server.terminate()
    yield "end", server.wait(30)


def protocol(product: Any) -> Iterator[tuple[str, Any]]:
    """Run all scenarios, several at once: most of the time they wait."""
    scenarios = {f"stdio {version}": over_stdio(product, version) for version in VERSIONS}
    scenarios |= {"roots": with_roots(product, "2025-06-18"), "http": over_http(product)}
    with ThreadPoolExecutor(4) as pool:
        for name, found in zip(scenarios, pool.map(list, scenarios.values()), strict=True):
            for n, (step, each) in enumerate(found):
                yield f"{name}: {n:02} {product.cleaned(step)}", product.cleaned(each)


def commands(product: Any) -> Iterator[tuple[str, Any]]:
    """Ask every command for its help, and run those that read and write an index."""
    names = [
        "index",
        "query",
        "serve",
        "install",
        "status",
        "forget",
        "why",
        "doctor",
        "tune",
        "eval",
        "token",
        "duplicates",
    ]
    names += [
        f"duplicates {each}" for each in ("decide", "undo", "export", "import", "review", "judge")
    ]
    helps = [[*name.split(), "--help"] for name in ["", *names, "no-such"]]
    for words, found in zip(helps, product.commands(helps), strict=True):
        yield " ".join(words), found
    vault = write(product.scratch / "commands" / "vault", NOTES)
    options = ["--folder", str(vault), "--index", str(vault.parent / "index"), *product.model]
    runs = (
        "index --json|index|index --rebuild|index --verify|status|status --json|query green "
        "button|query --explain green button"
    )
    runs += (
        "|query --json --limit 2 boxes and arrows|query saffron rice|query --tag none "
        "button|query --since soon x|query --limit 0 x"
    )
    runs += (
        "|why plugins/canvas.md green button|why --json plugins/canvas.md green button|why "
        "gone.md x|duplicates|duplicates --grey|duplicates export"
    )
    runs += (
        "|query --set query.limt=3 x|query --set query.limit=x x|index --folder /no/such|query "
        "--wait-fresh 1 button|forget --json|status"
    )
    asked = [run.split() for run in runs.split("|")]
    for n, found in enumerate(product.commands([[name, *options, *rest] for name, *rest in asked])):
        yield f"{n:02} {' '.join(asked[n])}", found
