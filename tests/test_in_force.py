"""Which note is in force: retired notes rank behind their successors and are marked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from folders import open_library, write_notes
from program import app
from thumbindex.mcp.query_reply import reply_query
from thumbindex.model import Answer, RetiredNote

OLD = "# Deploy\n\nDeploy releases on Fridays: deploy with the script.\n"
NEW = "# Releases\n\nWe deploy on Mondays.\n"
QUESTION = "when do we deploy releases with the script"


def ask(
    folder: Path, notes: Mapping[str, str], query: str = QUESTION, *overrides: str, **arguments: Any
) -> Answer:
    """Write and index notes, and ask for at most ten passages."""
    write_notes(folder, notes)
    with open_library(folder, overrides=overrides) as library:
        library.index()
        return library.query(query, **{"limit": 10, **arguments})


def marks(answer: Answer) -> list[tuple[str, str, str]]:
    """Return path, retirement and successor of each passage."""
    return [(passage.path, passage.retired, passage.successor) for passage in answer.passages]


def with_property(key: str, value: str, text: str) -> str:
    return f"---\n{key}: {value}\n---\n{text}"


def test_better_answer_comes_first_without_statements(tmp_path: Path) -> None:
    assert marks(ask(tmp_path / "v", {"old.md": OLD, "new.md": NEW})) == [
        ("old.md", "", ""),
        ("new.md", "", ""),
    ]


@pytest.mark.parametrize(
    "notes",
    [
        {"old.md": with_property("superseded_by", "'[[new]]'", OLD), "new.md": NEW},
        {"old.md": OLD, "new.md": with_property("supersedes", "'[[old]]'", NEW)},
        {"old.md": OLD, "new.md": with_property("replaces", "Deploy", NEW)},
        {"old.md": OLD.replace("\n\n", "\n\nObsoleted by: [R](new.md)\n\n", 1), "new.md": NEW},
        {"old.md": OLD, "new.md": NEW + "\n## Status\n\nSupersedes [Deploy](old.md)\n"},
    ],
)
def test_retired_note_comes_after_its_successor(tmp_path: Path, notes: dict[str, str]) -> None:
    assert marks(ask(tmp_path / "v", notes)) == [
        ("new.md", "", ""),
        ("old.md", "superseded", "new.md"),
    ]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("status", "Rejected", "rejected"),
        ("deprecated", "true", "deprecated"),
        ("valid_until", "2025-12-31", "expired on 2025-12-31"),
    ],
)
def test_retired_note_comes_after_notes_that_answer_as_well(
    tmp_path: Path, key: str, value: str, reason: str
) -> None:
    notes = {"a.md": with_property(key, value, OLD), "b.md": OLD.replace("Fridays", "Mondays")}
    assert marks(ask(tmp_path / "v", notes)) == [("b.md", "", ""), ("a.md", reason, "")]


def test_retired_note_is_shown_if_only_it_answers(tmp_path: Path) -> None:
    notes = {"old.md": with_property("status", "archived", OLD), "b.md": "# Lunch\n\nSoup.\n"}
    assert marks(ask(tmp_path / "v", notes, limit=None))[:1] == [("old.md", "archived", "")]


def test_note_is_in_force_on_its_last_day(tmp_path: Path) -> None:
    tomorrow = date.today() + timedelta(days=1)
    notes = {"a.md": with_property("expires", tomorrow.isoformat(), OLD)}
    assert marks(ask(tmp_path / "v", notes)) == [("a.md", "", "")]


def test_folders_and_statuses_are_settings(tmp_path: Path) -> None:
    notes = {"done/a.md": OLD, "b.md": with_property("status", "frozen", OLD + "\nTwo.\n")}
    settings = ("query.in_force.folders=done/**", "query.in_force.statuses=frozen")
    assert sorted(marks(ask(tmp_path / "v", notes, QUESTION, *settings))) == [
        ("b.md", "frozen", ""),
        ("done/a.md", "archived", ""),
    ]


def test_last_note_of_a_chain_is_named(tmp_path: Path) -> None:
    notes = {
        "a.md": with_property("superseded_by", "b.md", OLD),
        "b.md": with_property("superseded_by", "c.md", OLD.replace("Fridays", "Sundays")),
        "c.md": NEW,
    }
    assert marks(ask(tmp_path / "v", notes))[0] == ("c.md", "", "")
    assert {mark[1:] for mark in marks(ask(tmp_path / "v", notes))[1:]} == {("superseded", "c.md")}


@pytest.mark.parametrize("key", ["supersedes", "superseded_by"])
@pytest.mark.parametrize("first", ["a.md", "b.md"])
def test_cycle_retires_no_note(tmp_path: Path, key: str, first: str) -> None:
    """A note that names itself is a cycle, too."""
    notes = {
        "a.md": with_property(key, first, OLD),
        "b.md": with_property(key, "a.md" if first == "b.md" else "b.md", NEW),
    }
    assert marks(ask(tmp_path / "v", notes)) == [("a.md", "", ""), ("b.md", "", "")]


@pytest.mark.parametrize("status", ["proposed", "rejected"])
def test_note_that_is_not_approved_retires_no_other(tmp_path: Path, status: str) -> None:
    new = f"---\nstatus: {status}\nsupersedes: old.md\n---\n{NEW}"
    answer = ask(tmp_path / "v", {"old.md": OLD, "new.md": new})
    assert marks(answer)[0] == ("old.md", "", "")


def test_missing_successor_is_not_named(tmp_path: Path) -> None:
    notes = {"old.md": with_property("superseded_by", "'[[gone]]'", OLD)}
    assert marks(ask(tmp_path / "v", notes)) == [("old.md", "superseded", "")]


def test_question_with_a_year_or_retired_lifts_it(tmp_path: Path) -> None:
    notes = {"old.md": with_property("superseded_by", "new.md", OLD), "new.md": NEW}
    lifted = [("old.md", "superseded", "new.md"), ("new.md", "", "")]
    assert marks(ask(tmp_path / "v", notes, f"{QUESTION} in 2024")) == lifted
    assert marks(ask(tmp_path / "v", notes, QUESTION, retired=True)) == lifted
    assert marks(ask(tmp_path / "v", notes, f"{QUESTION} 1.2024"))[0][0] == "new.md"


def test_typed_name_comes_first(tmp_path: Path) -> None:
    notes = {"old.md": with_property("superseded_by", "new.md", OLD), "new.md": NEW}
    assert marks(ask(tmp_path / "v", notes, "old.md"))[0] == ("old.md", "superseded", "new.md")


def test_until_judges_as_of_that_day(tmp_path: Path) -> None:
    notes = {
        "old.md": f"---\ndate: 2026-01-01\nvalid_until: 2026-03-31\n---\n{OLD}",
        "new.md": f"---\ndate: 2026-03-01\nsupersedes: old.md\n---\n{NEW}",
        "x.md": "---\ndate: 2026-01-02\nstatus: deprecated\n---\n# Script\n\nRun it at night.\n",
    }
    write_notes(tmp_path / "v", notes)
    with open_library(tmp_path / "v") as library:
        library.index()
        found = {
            until: sorted(marks(library.query(QUESTION, until=until, limit=10)))
            for until in ("2026-02-01", "2026-03-02")
        }
    assert found == {
        "2026-02-01": [("old.md", "", ""), ("x.md", "", "")],
        "2026-03-02": [
            ("new.md", "", ""),
            ("old.md", "superseded", "new.md"),
            ("x.md", "", ""),
        ],
    }


def test_copy_in_force_survives(tmp_path: Path) -> None:
    notes = {
        "old.md": f"---\nstatus: deprecated\ntitle: When do we deploy\n---\n{OLD}",
        "new.md": OLD,
    }
    (passage,) = ask(tmp_path / "v", notes).passages
    assert (passage.path, passage.in_force, passage.status) == ("new.md", True, "")
    assert [place.path for place in passage.also_in] == ["old.md"]


def test_retired_note_does_not_contradict_its_successor(tmp_path: Path) -> None:
    notes = {
        "old.md": OLD,
        "new.md": with_property("supersedes", "old.md", OLD.replace("Fridays", "Mondays")),
        "x.md": OLD.replace("Fridays", "Sundays") + "\nNever at night, never in a hurry.\n",
    }
    answer = ask(tmp_path / "v", notes)
    assert [passage.disagrees for passage in answer.passages] == [(), (), ()]


def test_successors_stay_current(tmp_path: Path) -> None:
    notes = {"old.md": OLD, "new.md": with_property("supersedes", "old.md", NEW)}
    write_notes(tmp_path / "v", notes)
    with open_library(tmp_path / "v") as library:
        library.index()
        (tmp_path / "v" / "new.md").unlink()
        library.index()
        assert marks(library.query(QUESTION)) == [("old.md", "", "")]


def test_hidden_successor_is_not_named(tmp_path: Path) -> None:
    notes = {
        "a.md": with_property("superseded_by", "new.md", OLD),
        "b.md": OLD.replace("Fridays", "Sundays"),
        "new.md": with_property("supersedes", "b.md", NEW),
    }
    write_notes(tmp_path / "v", notes)
    with open_library(tmp_path / "v") as library:
        library.index()
        before = marks(library.query(QUESTION, limit=10))
        (tmp_path / "v" / "new.md").write_text("---\nprivate: true\n---\nsecret\n", "utf-8")
        after = marks(library.query(QUESTION, limit=10))
    assert {mark[1:] for mark in before} == {("", ""), ("superseded", "new.md")}
    assert sorted(after) == [("a.md", "superseded", ""), ("b.md", "", "")]


def test_hidden_end_of_a_chain_is_not_named_behind_many_drafts(tmp_path: Path) -> None:
    draft = "---\nstatus: draft\nsupersedes: old.md\n---\nx\n"
    notes = {
        "old.md": with_property("superseded_by", "middle.md", OLD),
        "middle.md": with_property("superseded_by", "end.md", "x\n"),
        "end.md": "y\n",
    }
    write_notes(tmp_path / "v", notes | {f"d{n:03}.md": draft for n in range(120)})
    with open_library(tmp_path / "v") as library:
        library.index()
        before = marks(library.query(QUESTION, path=["old.md"]))
        (tmp_path / "v" / "end.md").write_text("---\nprivate: true\n---\nsecret\n", "utf-8")
        after = marks(library.query(QUESTION, path=["old.md"]))
        listed = library.retired().notes
    assert before == [("old.md", "superseded", "end.md")]
    assert after == [("old.md", "superseded", "middle.md")]
    assert [(note.path, note.successor) for note in listed] == [
        ("middle.md", ""),
        ("old.md", "middle.md"),
    ]


@pytest.mark.parametrize("older", ["w{:03}.md", "w000.md"])
def test_no_chain_and_no_number_of_successors_is_too_long(tmp_path: Path, older: str) -> None:
    notes = {
        f"w{n:03}.md": f"---\ndate: {date(2026, 1, 1) + timedelta(n)}\n"
        f"supersedes: {older.format(n - 1)}\n---\nx\n"
        for n in range(1, 120)
    }
    write_notes(tmp_path / "v", {"w000.md": OLD, **notes})
    with open_library(tmp_path / "v") as library:
        library.index()
        (passage,) = library.query(QUESTION, path=["w000.md"]).passages
    assert (passage.retired, passage.successor) == ("superseded", "w119.md")


def test_folders_have_their_own_successors(tmp_path: Path) -> None:
    write_notes(tmp_path / "a", {"old.md": OLD})
    write_notes(tmp_path / "b", {"new.md": with_property("supersedes", "old.md", NEW)})
    write_notes(tmp_path / "b", {"old.md": OLD.replace("Fridays", "Sundays")})
    with open_library(tmp_path / "a", tmp_path / "b") as library:
        library.index()
        answer = library.query(QUESTION, limit=10)
    assert sorted((p.folder, p.path, p.successor) for p in answer.passages) == [
        ("a", "old.md", ""),
        ("b", "new.md", ""),
        ("b", "old.md", "new.md"),
    ]


RETIRED = "not in force: superseded by new.md (2026-03-01)"


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    new = f"---\ndate: 2026-03-01\nsupersedes: old.md\n---\n{NEW}"
    return write_notes(tmp_path_factory.mktemp("in-force") / "v", {"old.md": OLD, "new.md": new})


def test_client_reads_that_a_note_is_retired(vault: Path) -> None:
    with open_library(vault) as library:
        library.index()
        reply = reply_query(library, {"query": QUESTION})
    first, second = reply.structured["results"]
    assert reply.text.count(f"({RETIRED})") == 1
    assert "in_force" not in first
    assert {name: second[name] for name in ("in_force", "retired", "successor")} == {
        "in_force": False,
        "retired": "superseded",
        "successor": "new.md",
    }


def test_terminal_shows_that_a_note_is_retired(
    vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    place = ["--folder", str(vault), "--index", str(tmp_path / "index")]
    CliRunner().invoke(app, ["index", "--complete", *place], obj=lambda _: open_library(vault))
    command = ["query", QUESTION, *place]
    outputs = [
        CliRunner().invoke(app, [*command, *option], obj=lambda _: open_library(vault)).stdout
        for option in ((), ("--full",), ("--files",), ("--files", "--retired"))
    ]
    assert [output.count(RETIRED) for output in outputs[:2]] == [1, 1]
    assert [[line[-6:] for line in output.split()] for output in outputs[2:]] == [
        ["new.md", "old.md"],
        ["old.md", "new.md"],
    ]


def test_retired_lists_notes_and_missing_successors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    notes = {
        "a.md": f"---\nsuperseded_by: new.md\ndate: 2026-01-05\n---\n{OLD}",
        "b.md": "---\ndate: 2026-01-04\n---\nMoved to [[b2]].\n",
        "c.md": "---\nsuperseded_by: ['[[new]]', '[[p]]']\ndate: 2026-01-03\n---\nx\n",
        "d.md": "---\nexpires: 2026-01-02\ndate: 2026-01-02\n---\nx\n",
        "e.md": "---\nsuperseded_by: p\ndate: 2026-01-01\n---\nx\n",
        "new.md": f"---\ndate: 2026-03-01\n---\n{NEW}",
        "p.md": "---\nprivate: true\n---\nsecret\n",
    }
    write_notes(tmp_path / "v", notes)
    command = ["retired", "--folder", str(tmp_path / "v"), "--index", str(tmp_path / "index")]
    printed = CliRunner().invoke(app, command, obj=lambda _: open_library(tmp_path / "v"))
    assert printed.stdout.splitlines() == [
        "v/a.md  superseded by new.md (2026-03-01)",
        "v/b.md  superseded by [[b2]], which is not in the index",
        "v/c.md  superseded by new.md (2026-03-01); also by [[p]], which is not in the index",
        "v/d.md  expired on 2026-01-02",
        "v/e.md  superseded by p, which is not in the index",
        "5 retired notes",
    ]


def test_retired_judges_as_of_until_and_by_filters(vault: Path) -> None:
    with open_library(vault) as library:
        library.index()
        found = [
            library.retired(**narrowing).notes
            for narrowing in ({}, {"until": "2026-02-01"}, {"path": ["new.md"]})
        ]
    old = RetiredNote("v", "old.md", "superseded", "new.md", "2026-03-01")
    assert found == [(old,), (), ()]
