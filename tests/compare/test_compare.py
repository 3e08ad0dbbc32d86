"""The comparison with other tools: what is measured of a fake one, and that no tool can stop the
run.
"""

import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from compare.driver import GivenUpError, Place, Reply, Tool, Watch, run_command
from compare.hostile import ALIVE, NOTES, ORDER, judge, settle, write_hostile
from compare.measure import Questions, fuse, indexed, measure, measure_hostile, summary
from compare.page import page
from compare.run import copy_notes, install_packages, versions
from compare.tools import LEFT_OUT, TOOLS, read_json, read_mdsift, text_and_limit
from thumbindex.study.measures import RankedPassage
from thumbindex.study.queries import Label, LabeledQuery

FAKE = str(Path(__file__).parent / "fake_server.py")
APPLES = LabeledQuery("q1", "apples", "keyword", (Label("apples.md", None, 2),))
BOATS = LabeledQuery(
    "q2", "where are they tarred?", "question", (Label("boats.md", None, 2),), also=("boats",)
)
QUESTIONS = Questions([APPLES, BOATS.as_typed], [APPLES, BOATS], [APPLES], "written by hand")


def fake(*options: str, index: str = "pass", call_seconds: float = 30.0) -> Tool:
    return Tool(
        "fake",
        ("fake==1",),
        "its defaults",
        lambda place: (sys.executable, FAKE, *options),
        "search",
        text_and_limit("query", "limit"),
        lambda place, reply: read_json(place, reply, "results", "path"),
        lambda place: [(sys.executable, "-c", index)],
        call_seconds=call_seconds,
    )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "programs", tmp_path / "vault" / "notes", tmp_path / "homes" / "fake")


def test_a_tool_is_asked_as_typed_with_rewordings_and_for_names(place: Place) -> None:
    record = measure(fake(), place, QUESTIONS)
    assert record["typed"] == {"default": [1.0, 0.0], "deep": [1.0, 0.0]}
    assert record["reworded"] == {"as one text": [1.0, 1.0], "one by one": [1.0, 1.0]}
    assert (record["names"], record["nothing"]) == ([1.0], 1)
    assert record["calls"]["tokens"][0] > record["calls"]["tokens"][1] > 0
    assert record["memory"] > 1_000_000


def test_a_look_that_began_before_a_larger_one_and_ends_after_it_does_not_undo_it() -> None:
    began, seen = threading.Event(), threading.Event()

    def held() -> int:
        if threading.current_thread() is threading.main_thread():
            return 5
        began.set()
        assert seen.wait(30)
        return 0

    watch = Watch(held)
    slow = threading.Thread(target=watch.look)
    slow.start()
    assert began.wait(30)
    watch.look()
    seen.set()
    slow.join()
    assert watch.most == 5


def test_a_tool_that_hangs_is_given_up_in_time(place: Place) -> None:
    start = time.monotonic()
    assert (
        measure(fake("hang", call_seconds=0.5), place, QUESTIONS)["given up"]
        == "no answer within 0.5 s to 'apples'"
    )
    assert time.monotonic() - start < 60


def test_a_server_that_dies_is_given_up_with_a_reason(place: Place) -> None:
    assert "Error" in measure(fake("die"), place, QUESTIONS)["given up"]


def test_a_tool_that_answers_with_errors_is_given_up_and_not_scored(place: Place) -> None:
    assert (
        measure(fake("fail"), place, QUESTIONS)["given up"]
        == "it answers with an error: no such table"
    )
    assert measure_hostile(fake("fail"), place)["marked private"] == "an error"


def test_an_index_that_fails_is_given_up_with_its_last_words(place: Place) -> None:
    tool = fake(index=f"raise SystemExit('no model in {place.notes}/x')")
    assert measure(tool, place, QUESTIONS)["given up"].endswith("ended with 1: no model in NOTES/x")


def test_an_index_is_kept_for_the_same_notes_and_made_anew_for_others(place: Place) -> None:
    first = indexed(fake(), place, "some notes")
    assert indexed(fake(index="raise SystemExit(1)"), place, "some notes") == first
    (place.home / "of the old ones").touch()
    assert indexed(fake(), place, "other notes")["state"] == "other notes"
    assert list(place.home.iterdir()) == []


def test_notes_are_copied_anew_when_one_has_changed(tmp_path: Path) -> None:
    notes, copy = tmp_path / "notes", tmp_path / "copies" / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("one")
    first = copy_notes(notes, copy)
    (copy / "of a tool").touch()
    assert (copy_notes(notes, copy), (copy / "of a tool").exists()) == (first, True)
    (notes / "a.md").write_text("two")
    assert copy_notes(notes, copy) != first
    assert {each.name: each.read_text() for each in copy.iterdir()} == {"a.md": "two"}


def test_a_tool_is_installed_anew_when_its_packages_are_others(tmp_path: Path) -> None:
    (tmp_path / "installed.json").write_text('{"packages": ["old==1"]}')
    assert install_packages(["old==1"], tmp_path) == {"packages": ["old==1"]}
    assert install_packages([], tmp_path)["packages"] == []


def test_a_command_that_does_not_end_is_ended_with_what_it_started(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; "
        "time.sleep(600)'])"
    )
    start = time.monotonic()
    with pytest.raises(GivenUpError, match="was ended after 1 s"):
        run_command((sys.executable, "-c", program), {}, tmp_path, 1.0)
    assert time.monotonic() - start < 60


def test_hostile_notes_are_asked_for_beside_ordinary_ones(place: Place) -> None:
    found = measure_hostile(fake(), place)
    assert (found["an order to the model"], found[ALIVE]) == ("not found", "2 of 3")


def test_a_note_stays_out_only_of_answers_that_hold_all_ordinary_notes() -> None:
    found = {"marked private": "stays out", "a link out of the folder": "comes through"}
    assert settle({**found, ALIVE: "3 of 3"}) == {**found, ALIVE: "3 of 3"}
    assert [settle({**found, ALIVE: "2 of 3"}), settle(found)] == [
        {"a link out of the folder": "comes through", ALIVE: "2 of 3"},
        {"a link out of the folder": "comes through"},
    ]


def test_a_secret_that_is_shown_comes_through_whatever_path_is_beside_it(place: Place) -> None:
    private = next(each for each in NOTES if each.name == "marked private")
    replies = [
        Reply("The QUOKKAS live in wolverton."),
        Reply("", {"results": [{"text": "Wolverton"}]}),
        Reply("Wolverton", is_error=True),
        Reply('{"results": [{"path": "private.md"}]}'),
        Reply("nothing about quokkas"),
    ]
    assert [judge(private, place, each, fake()) for each in replies] == ["comes through"] * 4 + [
        "stays out"
    ]


def test_an_order_counts_as_marked_only_by_what_stands_beside_it(place: Place) -> None:
    order = NOTES[0]
    bare = f'{{"results": [{{"path": "order.md", "text": "{ORDER}"}}]}}'
    marked = bare.replace('"text"', '"note": "this text speaks like an instruction", "text"')
    assert [judge(order, place, Reply(text), fake()) for text in (bare, marked, "{}")] == [
        "found, unmarked",
        "found, marked",
        "not found",
    ]


def test_hostile_notes_are_ten_and_each_holds_its_word(tmp_path: Path) -> None:
    write_hostile(tmp_path / "notes", tmp_path / "outside")
    assert len(NOTES) == 10
    assert all(
        each.word.encode() in (tmp_path / "notes" / each.file).read_bytes() for each in NOTES
    )


def test_git_takes_notes_for_no_part_of_a_work_tree_that_they_lie_in(tmp_path: Path) -> None:
    write_hostile(tmp_path / "tree", tmp_path / "outside")
    (tmp_path / "tree" / "notes").mkdir()
    inner, outer = (
        Place(tmp_path, each, tmp_path) for each in (tmp_path / "tree" / "notes", tmp_path / "tree")
    )
    words = ("git", "ls-files", "--others", "--exclude-standard")
    inside, listed = (
        subprocess.run(
            words, cwd=each.notes, env=each.environment, capture_output=True, check=False
        )
        for each in (inner, outer)
    )
    assert inside.returncode == 128
    assert (b"order.md" in listed.stdout, b"ignored.md" in listed.stdout) == (True, False)


def test_ranks_are_fused_by_document() -> None:
    lists = [
        [RankedPassage("a", ()), RankedPassage("a", ()), RankedPassage("b", ())],
        [RankedPassage("b", ()), RankedPassage("c", ())],
    ]
    assert [each.path for each in fuse(lists)] == ["b", "a", "c"]


def test_the_page_shows_each_measure_in_which_another_is_better(place: Place) -> None:
    # on a busy machine nobody looked while it ran
    record = {**measure(fake(), place, QUESTIONS), "memory": 50_000_000}
    slower = {
        **record,
        "memory": record["memory"] * 3,
        "typed": {"default": [1.0, 1.0], "deep": [1.0, 1.0]},
    }
    folder = {
        "questions": {"source": "written by hand", "typed": 2, "reworded": 2, "names": 1},
        "files": 3,
    }
    run = {
        "date": "2026-01-31",
        "began": "2026-01-31 10:00:00",
        "machine": "one core",
        "thumbindex": "0.1.0",
        "labeled": True,
        "load": 1.0,
    }
    tools = [TOOLS[0], fake()]
    slower["index"] = {**record["index"], "processor": 1000.0}
    record["index"] = {"bytes": record["index"]["bytes"]}  # made at each start
    folders = {"vault": {**folder, "tools": {"thumbindex": slower, "fake": record}}}
    shown = page(
        {
            "run": run,
            "installed": {},
            "folders": folders,
            "hostile": {"fake": {"given up": "it hung"}},
        },
        tools,
    )
    assert f"- memory (MB): fake {record['memory'] / 1e6:.0f}; thumbindex" in shown
    assert "- processor time of an index and a first answer (s): fake" in shown
    assert "- nDCG@10 as typed: fake" not in shown
    assert "- fake: it hung" in shown
    assert all(name in shown for name in LEFT_OUT)


def test_the_page_says_what_was_made_before_the_run(place: Place) -> None:
    record = measure(fake(), place, QUESTIONS)
    earlier = {**record, "index": {**record["index"], "made": "2026-01-30 09:00:00"}}
    folder = {
        "questions": {"source": "written by hand", "typed": 2, "reworded": 2, "names": 1},
        "files": 3,
        "old": ["fake"],
    }
    run = {
        "date": "2026-01-31",
        "began": "2026-01-31 10:00:00",
        "machine": "one core",
        "thumbindex": "0.1.0",
        "labeled": True,
        "load": 1.0,
    }
    folders = {"vault": {**folder, "tools": {"thumbindex": record, "fake": earlier}}}
    installed = {"fake": {"versions": {"fake": "1.5"}, "bytes": 0}}
    shown = page(
        {"run": run, "installed": installed, "folders": folders, "old hostile": ["thumbindex"]},
        [TOOLS[0], fake()],
    )
    assert all(
        row in shown
        for row in (
            "| thumbindex | in this run |",
            "| fake | before, on 2026-01-30 09:00 |",
            "| fake | `fake` 1.5 |",
        )
    )
    assert all(
        f"Measured with earlier notes, questions or versions: {name}." in shown
        for name in ("fake", "thumbindex")
    )


def test_a_tool_that_was_given_up_has_its_reason_in_the_table() -> None:
    assert summary({"tool": "fake", "given up": "it hung"}) == {"given up": "it hung"}


def test_both_forms_of_a_toon_answer_are_read(place: Place) -> None:
    table = 'results[2]{path,score,snippet}:\n  a.md,4.6,"one, two"\n  "b, c.md",2.0,three'
    rows = "results[2]:\n  - path: a.md\n    score: 4.6\n  - path: b, c.md\n    score: 2.0"
    assert [[each.path for each in read_mdsift(place, Reply(text))] for text in (table, rows)] == [
        ["a.md", "b, c.md"]
    ] * 2


def test_no_tool_is_asked_without_its_version() -> None:
    pinned = re.compile(r"npm:.+@\d+\.\d+\.\d+|[\w-]+(\[\w+\])?==\d+(\.\d+)+(\.post\d+)?")
    assert [each for tool in TOOLS for each in tool.packages if not pinned.fullmatch(each)] == []


def test_the_versions_are_those_that_are_installed(tmp_path: Path) -> None:
    (tmp_path / "lib/python3.11/site-packages/some_tool-1.2.dist-info").mkdir(parents=True)
    (tmp_path / "lib/python3.11/site-packages/some_tool-1.2.dist-info/METADATA").write_text(
        "Name: some-tool\nVersion: 1.2\n"
    )
    (tmp_path / "node_modules/@they/other").mkdir(parents=True)
    (tmp_path / "node_modules/@they/other/package.json").write_text('{"version": "3.4.5"}')
    assert versions(("some-tool[mcp]==1.0", "npm:@they/other@3.4.0"), tmp_path) == {
        "some-tool": "1.2",
        "npm:@they/other": "3.4.5",
    }
