"""The program: what it prints, writes and refuses; each measurement runs, and its figures are what
their names say.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from bench import answers, copies, disk, growth, load, page, run, together, words
from bench.results import Row, draw_growth, machine, read_record, table, write_record
from bench.subject import RandomEmbedder, Subject, draw_questions
from postgres.server import TestServer
from thumbindex.errors import ThumbindexError, UsageError
from thumbindex.ports import Embedder
from thumbindex.settings import WatchSettings
from thumbindex.testing import FakeEmbedder

SCHEMA = json.loads((Path(__file__).parent / "bench.json").read_text(encoding="utf-8"))

ROWS = (
    Row("query", "p50", "ms", (3.0, 4.0, 9.0), most=5.0, note="note"),
    Row("words", "ratio", "×", (0.5,), least=0.6),
    Row("disk", "index", "MB", (12.0,)),
)


def measured(
    kept: Path, *arguments: str, embedder: FakeEmbedder | None = None
) -> dict[str, dict[str, Any]]:
    """Run the program; return the rows of its JSON, which fits its schema, by name."""
    run.main([*arguments, "--json", str(kept)], embedder)
    found = json.loads(kept.read_text(encoding="utf-8"))
    jsonschema.validate(found, SCHEMA)
    return {row["name"]: row for row in found["rows"]}


# ------------------------------------------------------------------ the program


def test_a_run_is_compared_with_an_earlier_one(
    subject: Subject, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [
        "disk",
        "--words-only",
        "--folder",
        str(subject.folder),
        "--index",
        str(tmp_path / "fresh"),
    ]
    rows = measured(tmp_path / "run.json", *options, embedder=FakeEmbedder())
    assert {row["what"] for row in rows.values()} == {"index", "disk"}
    run.main([*options, "--compare", str(tmp_path / "run.json")], FakeEmbedder())
    assert re.search(r"disk +Markdown .* \+0%", capsys.readouterr().out)


def test_made_up_notes_are_measured_where_no_folder_is_named(tmp_path: Path) -> None:
    rows = measured(
        tmp_path / "run.json", "disk", "--made", "3", "--words-only", embedder=FakeEmbedder()
    )
    assert "of 3 files" in rows["the folder, indexed once"]["note"]


def test_without_a_browser_a_sentence_says_that_the_page_is_not_measured(
    subject: Subject, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "page" in run.MEASURES.keys() - run.ON_REQUEST
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CHROMIUM", raising=False)
    assert list(page.measure(subject)) == []
    assert "The page is not measured" in capsys.readouterr().err


def test_a_clients_answers_are_measured_by_the_hand_written_set_that_is_named_like_the_folder(
    subject: Subject, tmp_path: Path
) -> None:
    line = json.dumps(
        {
            "id": "1",
            "query": "which note wins",
            "kind": "question",
            "relevant": [{"path": "sync.md", "heading": None, "grade": 2}],
        }
    )
    for name in ("vault.manual.jsonl", "other.manual.jsonl", "vault.typo.jsonl"):
        (tmp_path / name).write_text(line + "\n", encoding="utf-8")
    subject.given.eval = tmp_path
    assert [(name, asked) for name, _, asked in answers.question_sets(subject)] == [
        ("as typed", [{"query": "which note wins"}])
    ]
    subject.given.eval = None
    assert [name for name, _, _ in answers.question_sets(subject)] == ["drawn"]


def test_two_hand_written_sets_of_one_folder_are_refused(subject: Subject, tmp_path: Path) -> None:
    for part in ("dev", "test"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "vault.manual.jsonl").touch()
    subject.given.eval = tmp_path
    with pytest.raises(UsageError, match=r"dev/vault.*test/vault"):
        list(answers.question_sets(subject))


def test_what_cannot_be_measured_is_refused_with_what_can(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        run.main(["speed"])
    assert "no 'speed' to measure: name any of start, words" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="nothing can be told to end gently there")
def test_a_measurement_that_is_told_to_end_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, run.__file__, "together", "--made", "3", "--words-only"]
    with subprocess.Popen(
        command,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as running:
        end = time.monotonic() + 60
        while not list(tmp_path.glob("thumbindex-bench-*/vault/*")) and time.monotonic() < end:
            time.sleep(0.05)
        running.terminate()
        assert running.wait(30) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------ results


def test_a_target_is_met_or_missed_by_the_median_and_shown_with_the_spread() -> None:
    about = {"cores": 2, "python": "3.11", "load": 1.5}
    lines = [re.split(r" {2,}", line) for line in table(ROWS, about, {})]
    assert lines[1:4] == [
        ["query", "p50", "4", "3", "9", "ms", "≤ 5", "met"],
        ["words", "ratio", "0.50", "×", "≥ 0.6", "missed"],
        ["disk", "index", "12", "MB"],
    ]
    assert lines[4:6] == [["1 of 2 targets met; 2 cores, Python 3.11."], ["query: p50: note"]]
    assert lines[6][0].startswith("The machine was busy before it began (load 1.5)")


def test_noise_is_not_told_as_a_change(tmp_path: Path) -> None:
    write_record(tmp_path / "run.json", ROWS, machine())
    later = (Row("query", "p50", "ms", (8.0, 8.5, 8.6)), Row("disk", "index", "MB", (6.0,)))
    _, query, index, *_ = table(later, machine(), read_record(tmp_path / "run.json"))
    assert (query.endswith("4       +112% (ranges overlap)"), index.endswith("12      -50%")) == (
        True,
        True,
    )


def test_the_same_figures_give_the_same_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [
        Row("growth", f"p50, {size:,} chunks", unit, (size / 100,), size=size)
        for size in (1_000, 10_000)
        for unit in ("ms", "MB")
    ]
    first, second = (draw_growth(tmp_path / name, rows) for name in ("a", "b"))
    assert [path.name for path in first] == ["growth-time.svg", "growth-memory.svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


# ------------------------------------------------------------------ measurements


def test_words_are_measured_beside_whoosh_alone(subject: Subject) -> None:
    alone, ours, ratio = words.measure(subject)
    assert list(ratio.values) == [ours.values[0] / alone.values[0]]


def test_the_parts_of_an_index_are_all_of_it(subject: Subject) -> None:
    markdown, *parts, ratio = disk.measure(subject)
    assert ratio.median == pytest.approx(sum(row.median for row in parts) / markdown.median)
    assert round(markdown.median * 1e6) == sum(
        path.stat().st_size for path in subject.folder.iterdir()
    )


def test_questions_stand_in_the_notes_and_are_the_same_each_time(subject: Subject) -> None:
    chunks = subject.chunks()
    found = draw_questions(chunks, 9)
    assert (len(found), found) == (9, draw_questions(chunks, 9))
    assert {"Sync", "Canvas", "Graph view"} & set(found)


def test_an_index_with_random_vectors_is_asked_in_a_process_of_its_own(
    subject: Subject, real_embedder: Embedder, model_cache: Path
) -> None:
    model = ("encode.embed.model=all-MiniLM-L6-v2", f"encode.embed.cache={model_cache}")
    made = subject.at(subject.folder, subject.empty("index"), *model)
    with made.open(embedder=RandomEmbedder(real_embedder)) as library:
        library.index()
    found = growth.ask_apart(made.arguments, ["green button"] * (growth.WARM + 2))
    assert (len(found["words"]), len(found["hybrid"]), found["chunks"]) == (2, 2, 4)
    with pytest.raises(ThumbindexError, match="could not be asked"):
        growth.ask_apart(["--folder=/nowhere", "--set=nonsense=1"], ["x"])


def test_growth_is_told_in_times_and_in_kilobytes_a_chunk() -> None:
    small, large = (
        [{"words": [ms] * 3, "hybrid": [ms] * 3, "resident": resident, "chunks": chunks}]
        for ms, resident, chunks in ((2.0, 10_000_000, 1_000), (6.0, 50_000_000, 11_000))
    )
    assert [(row.median, row.most) for row in growth.steps_of(small, large)] == [(3.0, 4.0)] * 2 + [
        (4.0, 4.0)
    ]
    assert {(row.unit, row.size) for row in growth.rows_of(small)} == {("ms", 1_000), ("MB", 1_000)}


def test_every_client_asks_its_own_questions_until_the_end_and_a_refusal_ends_the_measurement() -> (
    None
):
    asked: list[list[str]] = [[], []]

    def call(client: int, query: str) -> dict[str, Any]:
        asked[client].append(query)
        time.sleep(0.001)
        if query == "refused":
            raise ThumbindexError(query)
        return {}

    def wait() -> str:
        while min(map(len, asked)) < 3:
            time.sleep(0.001)
        return "done"

    calls = [lambda _, client=client, **given: call(client, **given) for client in (0, 1)]
    milliseconds, seconds, done = together.ask_during(wait, calls, ["a", "b", "c", "d"])
    assert [each[:3] for each in asked] == [["a", "c", "a"], ["b", "d", "b"]]
    assert (len(milliseconds), seconds * 1000 >= max(milliseconds), done) == (
        sum(map(len, asked)),
        True,
        "done",
    )
    with pytest.raises(ThumbindexError, match="refused"):
        together.ask_during(lambda: time.sleep(0.01), calls, ["a", "refused"])


def test_a_start_and_edits_are_measured_through_real_servers(
    subject: Subject, model_cache: Path, tmp_path: Path
) -> None:
    model = [
        "--set",
        "encode.embed.model=all-MiniLM-L6-v2",
        "--set",
        f"encode.embed.cache={model_cache}",
    ]
    made = ["--made", "5", "--characters", "500", "--rounds", "1", "--edits", "2"]
    rows = measured(tmp_path / "run.json", "start", "freshness", *made, *model)
    seconds = [
        rows[name]["median"]
        for name in ("initialize", "first answer by words", "first hybrid answer")
    ]
    assert seconds == sorted(seconds)
    assert (rows["save to words: missed"]["median"], len(rows["save to words"]["values"])) == (0, 2)
    assert WatchSettings().quiet_ms / 1000 < rows["save to words"]["median"] < 10
    assert (
        rows["save to words beside a large note: missed"]["median"],
        len(rows["save to words beside a large note"]["values"]),
    ) == (0, 2)


def test_an_index_that_is_taken_as_it_is_is_left_as_it_is(subject: Subject, tmp_path: Path) -> None:
    def files() -> dict[Path, bytes]:
        return {
            path: path.read_bytes() for path in (tmp_path / "index").rglob("*") if path.is_file()
        }

    before = files()
    (subject.folder / "new.md").write_text("# New\n", encoding="utf-8")
    options = [
        "disk",
        "--as-it-is",
        "--folder",
        str(subject.folder),
        "--index",
        str(tmp_path / "index"),
    ]
    rows = measured(tmp_path / "run.json", *options, embedder=FakeEmbedder())
    assert ({row["what"] for row in rows.values()}, files()) == ({"disk"}, before)
    with pytest.raises(SystemExit):
        run.main(["disk", "--as-it-is"])


def test_a_database_is_loaded_and_asked_by_processes_and_by_agents_while_notes_change(
    postgres: TestServer, tmp_path: Path
) -> None:
    made = [
        "--made",
        "12",
        "--characters",
        "1500",
        "--rounds",
        "1",
        "--questions",
        "5",
        "--clients",
        "2",
        "--seconds",
        "0.5",
    ]
    rows = measured(tmp_path / "run.json", "engine", *made)
    assert sum(rows[f"database, {part}"]["median"] for part in load.PARTS) == pytest.approx(
        rows["database"]["median"]
    )
    # the program's start aside
    assert sum(rows[f"load, {part}"]["median"] for part in load.PARTS) < rows["load"]["median"] + 10
    assert {
        "words, engine, p50",
        "question, engine, p95",
        "meaning, engine, exact, p50",
        "2 processes: answers",
    } <= rows.keys()
    nothing = ("16 agents, errors", "edits, torn answers", "edits that were not seen")
    assert (rows["edits"]["median"] > 0, [rows[name]["median"] for name in nothing]) == (
        True,
        [0, 0, 0],
    )


def test_what_a_table_holds_is_known_by_its_name() -> None:
    tables = (
        "chunks_3",
        "postings_12",
        "vectors_3",
        "vectors_3 HNSW",
        "chunks_3 HNSW",
        "links",
        "",
    )
    assert list(map(load.part_of, tables)) == [
        "texts",
        "words",
        "vectors",
        "HNSW",
        "texts",
        "others",
        "others",
    ]


def test_planted_copies_of_sections_are_found_as_duplicates(tmp_path: Path) -> None:
    rows = measured(
        tmp_path / "run.json", "duplicates", "--made", "10", "--characters", "1500", "--edits", "2"
    )
    assert (rows["pairs"]["median"] > 0, len(rows["after an edit"]["values"])) == (True, 2)


# ------------------------------------------------------------------ copies

SUBJECTS = (
    "whales beacons orchards ledgers violins glaciers lanterns harbors turbines saddles kettles "
    "mosaics anchors quarries ribbons"
).split()

SECTION = (
    "{0} are kept for {1} days in order to be counted, and every keeper of {0} writes them down "
    "such as it is the custom, "
    "because a note about {0} that nobody wrote cannot be found by those who come later."
)


@pytest.fixture
def sections(tmp_path: Path) -> Path:
    root = tmp_path / "notes"
    root.mkdir()
    for n, subject in enumerate(SUBJECTS):
        own = " and ".join(f"{subject}{letter}" for letter in "abcdef")
        (root / f"{subject}.md").write_text(
            f"# About {subject}\n\nOf {subject} there are {own}. "
            f"{SECTION.format(subject, n + 7)}\n",
            encoding="utf-8",
        )
    return root


def test_planted_copies_say_at_their_decisive_line_what_their_kind_promises(
    sections: Path, tmp_path: Path
) -> None:
    before = {path.name: path.read_bytes() for path in sections.iterdir()}
    planted = copies.plant(sections, tmp_path / "one", share=0.4)
    assert [each.kind for each in planted] == ["copied", "reworded", "renumbered"] * 2
    assert (
        planted
        == copies.plant(sections, tmp_path / "two", share=0.4)
        != copies.plant(sections, tmp_path / "three", share=0.4, seed=2)
    )
    assert {path.name: path.read_bytes() for path in (tmp_path / "one").glob("*.md")} == before
    for each in planted:
        original, copy = (
            (tmp_path / "one" / spot.path).read_text(encoding="utf-8").split("\n")[spot.line - 1]
            == spot.text
            and spot.text
            for spot in each.spots
        )
        assert (original == copy, bool(original and copy)) == (each.kind == "copied", True)


def test_only_prose_is_reworded_and_renumbered() -> None:
    held = (
        "# Also use this\n\n```\nuse also\n```\n\n| use | also |\n\n"
        "`use also` [here](also) [[use also]]\n\n"
    )
    assert (
        copies.reword(f"{held}You use it, but also cannot want it.")
        == f"{held}You employ it, but as well can't wish it."
    )
    assert (
        copies.renumber("`30` and [a](b30) in 5.1: keep 30 of 40.")
        == "`30` and [a](b30) in 5.1: keep 90 of 40."
    )
    assert (
        copies.reword("Nothing here is put another way."),
        copies.renumber("Version 5.1 of `30` has no number."),
    ) == (None, None)


def test_copies_come_once_with_deduplication_and_another_number_is_not_lost(
    sections: Path, tmp_path: Path
) -> None:
    rows = measured(
        tmp_path / "run.json", "copies", "--folder", str(sections), embedder=FakeEmbedder()
    )
    without, with_it = (
        {
            what: rows[f"own words, {how} deduplication: {what}"]["median"]
            for what in ("copied, met", "copied, both", "renumbered, lost")
        }
        for how in ("without", "with")
    )
    assert without["copied, both"] == without["copied, met"] == with_it["copied, met"] > 0
    assert (with_it["copied, both"], with_it["renumbered, lost"]) == (0, 0)
