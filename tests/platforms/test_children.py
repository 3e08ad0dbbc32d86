"""Commands and servers in processes that see the os layer of Windows or macOS: what their user
would see there, as far as it can be faked.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from platforms.fakes import surroundings
from servers import children_of, is_alive

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="a fake asks Linux which files are open"
)

THUMBINDEX = (sys.executable, "-P", "-m", "thumbindex")
CLIENT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
NOTE = "Äpfel.md"


@pytest.fixture
def options(tmp_path: Path, model_cache: Path) -> list[str]:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / NOTE).write_text(
        "# Äpfel\n\nPlenty of apples grow on trees.\n", encoding="utf-8"
    )
    model = ("encode.embed.model=all-MiniLM-L6-v2", f"encode.embed.cache={model_cache}")
    return [
        f"--folder={tmp_path / 'vault'}",
        f"--index={tmp_path / 'index'}",
        *(f"--set={each}" for each in model),
    ]


def run(system: str, home: Path, *words: str, code: int = 0) -> str:
    environment = surroundings(
        system, PYTHONIOENCODING="cp1252", HOME=str(home), XDG_CONFIG_HOME=str(home)
    )
    done = subprocess.run(
        [*THUMBINDEX, *words], env=environment, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == code, f"{words[0]}: {done.stderr.decode('cp1252', 'replace')}"
    return done.stdout.decode("cp1252")


@pytest.mark.parametrize("system", ["windows", "macos"])
def test_a_folder_is_indexed_asked_built_anew_and_forgotten(
    system: str, options: list[str], tmp_path: Path
) -> None:
    assert "1 added" in run(system, tmp_path, "index", *options)
    with (tmp_path / "vault" / NOTE).open("a", encoding="utf-8") as file:
        file.write("\nThe harvest → October.\n")
    assert "1 changed" in run(system, tmp_path, "index", *options)
    assert "October" in run(system, tmp_path, "query", *options, "when is the harvest?")
    assert "1 changed" in run(system, tmp_path, "index", "--rebuild", *options)
    assert "ready" in run(system, tmp_path, "status", *options)
    checks = json.loads(run(system, tmp_path, "doctor", "--json", *options))["checks"]
    assert {each["subject"]: each["state"] for each in checks}["handshake"] == "ok"
    assert "forgotten" in run(system, tmp_path, "forget", *options)
    assert [path for path in (tmp_path / "index").rglob("*") if path.is_file()] == []


class Served:
    """A server on a faked system, asked line by line."""

    def __init__(self, system: str, options: list[str]) -> None:
        environment = surroundings(system, PYTHONIOENCODING="cp1252")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen([*THUMBINDEX, "serve", *options], env=environment, **pipes)  # type: ignore[call-overload]
        self._number = 0

    def ask(self, method: str, **asked: object) -> dict[str, object]:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": asked})
        for line in self.process.stdout:
            assert not line.endswith(b"\r\n"), "the protocol's lines end with a line feed"
            if (answer := json.loads(line.decode("utf-8"))).get("id") == self._number:
                return answer["result"]
        raise AssertionError("the server has ended")

    def tell(self, method: str) -> None:
        self._send({"method": method})

    def _send(self, message: dict[str, object]) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\r\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()
        self.process.wait()

    def query(self, question: str) -> dict[str, object]:
        return self.ask(
            "tools/call", name="query", arguments={"query": question, "wait_fresh": 30}
        )["structuredContent"]


@pytest.mark.parametrize("system", ["windows", "macos"])
def test_a_server_answers_follows_edits_and_takes_its_child_with_it(
    system: str, options: list[str], tmp_path: Path
) -> None:
    server = Served(system, options)
    try:
        assert server.ask("initialize", **CLIENT)["serverInfo"]["name"] == "thumbindex"
        server.tell("notifications/initialized")
        assert len(server.ask("tools/list")["tools"]) == 6
        assert "apples" in server.query("where do apples grow?")["results"][0]["text"]
        (tmp_path / "vault" / "pears.md").write_text(
            "# Pears\n\nThe pears are in the cellar.\n", encoding="utf-8"
        )
        assert "cellar" in server.query("where are the pears?")["results"][0]["text"]
        (child,) = children_of(server.process.pid)
        server.process.stdin.close()
        assert server.process.wait(20) == 0
        until = time.monotonic() + 10
        while is_alive(child) and time.monotonic() < until:
            time.sleep(0.05)
        assert time.monotonic() < until, "the child lives on"
    finally:
        server.end()


def test_what_a_child_says_is_read_as_it_was_written_whatever_the_encoding_of_pipes(
    options: list[str], tmp_path: Path
) -> None:
    (tmp_path / "vault").rename(tmp_path / "Grüße → du")
    options[0] = f"--folder={tmp_path / 'Grüße → du'}"
    (tmp_path / "Grüße → du" / "thumbindex.toml").write_text("query = 1\n", encoding="utf-8")
    server = Served("windows", options)
    try:
        server.ask("initialize", **CLIENT)
        server.tell("notifications/initialized")
        server.query("where do apples grow?")
        server.process.stdin.close()
        said = server.process.stderr.read()
        assert server.process.wait(20) == 0
        assert b"Gr\xfc\xdfe \\u2192 du" in said  # as the encoding of this pipe has it
        assert b"\\ufffd" not in said
    finally:
        server.end()
