"""A shared server's page shows each token exactly what a server with only its folders shows."""

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fakes import FakeEmbedder
from thumbindex.library import Library
from thumbindex.page.site import FORMS, SCREENS
from waiting import TRUSTED_SECONDS, until

SECRETS = ("salaries", "zirconium", "bands", "ninety", "bonus")

ADDRESSES = (
    "/",
    *(f"/?q={text}" for text in ("zirconium+band", "leave", "path:bandz.md", "Leave+bonus")),
    "/?q=leave&folder=salaries",
    "/?q=leave&path=**/band*&tag=bandz&since=2020-01-01",
    "/names?q=ba",
    "/note/handbook/leave.md",
    "/note/salaries/bands.md",
    "/note/handbook/bands.md",
    "/why?q=leave&path=leave.md",
    "/why?q=leave&path=salaries/bands.md",
    "/why?q=zirconium+leave",
    "/notes",
    "/notes?show=unlinked",
    "/notes?folder=salaries",
    "/checkup?show=all",
    "/checkup?folder=salaries",
    "/state",
    "/judge",
    "/judge?folder=salaries",
    "/salaries",
)


JSON = tuple(
    f"{path}.json{mark}{query}"
    for path, mark, query in (address.partition("?") for address in ADDRESSES)
    if path in {"/names", "/checkup"}
)


@pytest.fixture(scope="module")
def both(serve: Callable[..., Any]) -> Any:
    with serve(page=True, writers=("alice",)) as site:
        yield site


@pytest.fixture(scope="module")
def alone(serve: Callable[..., Any], open_indexed: Callable[..., Library]) -> Any:
    with (
        open_indexed("handbook") as library,
        serve(library=library, page=True, writers=("alice",)) as site,
    ):
        yield site


def comparable(text: str) -> str:
    """Return a page without times, ages and the process's revision."""
    text = re.sub(
        r'("(?:seconds|updated|made)": ?)(?:[\d.e-]+|"[^"]*")|(data-revision=")\d+', r"\1\2x", text
    )
    text = re.sub(
        r"\d{4}-\d\d-\d\dT[\d:+.]+|(?:a moment|[\d,]+ (?:second|minute|hour|day)s?) ago",
        "then",
        text,
    )
    return re.sub(r'<td class="number-cell">\d+\.\d</td>|in [\d,]+ ms', "ms", text)


def test_addresses_cover_every_screen() -> None:
    assert {address.partition("?")[0].split("/")[1] or "ask" for address in ADDRESSES} >= {*SCREENS}


@pytest.mark.parametrize("address", [*ADDRESSES, *JSON])
def test_screens_equal_those_of_a_server_without_the_hidden_folder(
    both: Any, alone: Any, address: str
) -> None:
    shared, reference = (site.ask(address, headers=site.token("bob")) for site in (both, alone))
    assert (shared.status_code, comparable(shared.text)) == (
        reference.status_code,
        comparable(reference.text),
    )
    text = shared.text.replace("zirconium", "") if "zirconium" in address else shared.text
    assert [word for word in SECRETS if word in text and word not in address] == []


def test_state_does_not_reveal_growth_of_a_hidden_folder(
    serve: Callable[..., Any], config: Any, place: Path, tmp_path: Path
) -> None:
    new = [place / "salaries" / f"{number}.md" for number in range(150)]
    with Library.open(index=tmp_path, config=config, embedder=FakeEmbedder()) as library:
        library.index()
        time.sleep(TRUSTED_SECONDS)  # younger files are read and recorded again
        library.index()
        with serve(library=library, page=True) as running:

            def states() -> list[str]:
                return [comparable(running.ask("/state", headers=running.token("bob")).text)]

            before = states()
            try:
                for path in new:
                    path.write_text(f"# {path.stem}\n\nA bonus of {path.stem}.\n", encoding="utf-8")
                library.index()
            finally:
                for path in new:
                    path.unlink(missing_ok=True)
            assert states() == before


FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("method", "path", "kind", "body", "status"),
    [
        ("POST", "/sign-in", "application/json", "{}", 400),
        ("POST", "/sign-in", FORM, "a=1&" * 501, 400),
        ("POST", "/sign-in", FORM, "token=x&to=//[", 401),
        ("GET", "/sign-in?to=http://[", "", "", 200),
    ],
)
def test_malformed_sign_ins_cause_no_server_error(
    both: Any, method: str, path: str, kind: str, body: str, status: int
) -> None:
    headers = {"Origin": both.base, "Content-Type": kind}
    assert both.ask(path, method, headers, content=body).status_code == status


def test_hidden_and_missing_notes_get_the_same_answer(both: Any) -> None:
    answers = {
        both.ask(path, headers=both.token("bob")).text
        for path in ("/note/salaries/bands.md", "/note/handbook/nothing.md", "/note/x/y.md", "/x")
    }
    assert len(answers) == 1


def test_token_with_both_folders_finds_both(both: Any) -> None:
    answer = both.ask("/?q=zirconium+band", headers=both.token("alice")).text
    assert "/note/salaries/bands.md" in answer
    assert "Bands" in both.ask("/note/salaries/bands.md", headers=both.token("alice")).text


def test_forms_of_read_only_visitors_are_refused(both: Any) -> None:
    headers = {**both.token("bob"), "Sec-Fetch-Site": "same-origin"}
    values = {"id": "1", "folder": "salaries", "query": "x", "path": "bands.md"}
    for name, form in FORMS:
        response = both.ask(f"/{name}/{form}", "POST", headers, data=values)
        assert (response.status_code, "serve.http.writers" in response.text) == (403, True)


def test_writer_cannot_use_forms_on_hidden_folders(
    serve: Callable[..., Any],
) -> None:
    values = {
        "id": "1",
        "folder": "salaries",
        "query": "zirconium?",
        "path": "bands.md",
        "grade": "2",
        "decisions": "{}",
    }
    with serve(page=True, writers=("bob",)) as running:
        headers = {
            **running.token("bob"),
            "Sec-Fetch-Site": "same-origin",
            "Accept": "application/json",
        }
        for name, form in set(FORMS) - {("judge", "stop")}:
            response = running.ask(f"/{name}/{form}", "POST", headers, data=values)
            assert response.status_code in {400, 404}
            leaked = [
                word for word in SECRETS if word in response.text and word not in values.values()
            ]
            assert leaked == []


def test_token_without_folders_sees_no_screen(both: Any) -> None:
    assert both.ask("/", headers=both.token("eve")).status_code == 403
    assert both.ask("/changes", headers=both.token("eve")).status_code == 403


def test_remote_visitors_see_no_file_paths(both: Any) -> None:
    for address in ("/state", "/judge", "/?q=leave", "/note/handbook/leave.md"):
        text = both.ask(address, headers=both.token("alice")).text
        assert (str(both.place) in text, "vscode://" in text) == (False, False)


def test_missing_index_is_reported_without_its_path(
    serve: Callable[..., Any], place: Any, config: Any
) -> None:
    values = {"id": "1", "folder": "handbook", "query": "x", "path": "leave.md", "grade": "2"}
    with (
        Library.open(index=place / "empty", config=config) as library,
        serve(library=library, page=True, writers=("alice",)) as running,
        ThreadPoolExecutor(16) as pool,  # each answer waits in vain for the index
    ):
        headers = {**running.token("alice"), "Sec-Fetch-Site": "same-origin"}
        forms = [
            pool.submit(running.ask, f"/{name}/{form}", "POST", headers, data=values)
            for name, form in FORMS
        ]
        screens = [
            pool.submit(running.ask, address, headers=running.token("alice"))
            for address in ("/?q=leave", "/note/handbook/leave.md", "/state", "/judge")
        ]
        assert [
            future.result().url
            for future in (*forms, *screens)
            if str(place) in future.result().text
        ] == []


def test_page_stream_ends_when_its_token_is_revoked(
    serve: Callable[..., Any], place: Path, tmp_path: Path
) -> None:
    tokens, lines = (
        tmp_path / "tokens",
        (place / "tokens").read_text(encoding="utf-8").splitlines(keepends=True),
    )
    tokens.write_text("".join(lines), encoding="utf-8")
    with (
        serve(page=True, token_file=str(tokens), check_seconds=0.05) as running,
        httpx2.Client(timeout=20) as http,
    ):
        assert running.ask("/changes").status_code == 401
        with http.stream(
            "GET", f"{running.base}/changes", headers=running.token("alice")
        ) as stream:
            assert (stream.status_code, running.site.streams) == (200, 1)
            tokens.write_text(
                "".join(line for line in lines if not line.startswith("alice")), encoding="utf-8"
            )
            assert sum(1 for _ in stream.iter_bytes()) < 5  # returns only if the stream ends
        assert until(lambda: running.site.streams == 0)
