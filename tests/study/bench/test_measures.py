"""Each measurement on a vault of three notes, with fakes for models: the figures are there, and the counts among them are right."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from thumbindex.errors import UsageError
from thumbindex.library import Library
from thumbindex.serve.bench import NAMES
from thumbindex.study.bench.asking import ask_all
from thumbindex.study.bench.disk import measure_disk
from thumbindex.study.bench.measures import MEASURES, check_names
from thumbindex.study.bench.pictures import draw_costs, lines_of
from thumbindex.study.bench.questions import draw_questions
from thumbindex.study.bench.row import Row
from thumbindex.study.bench.subject import Subject, Where, copy_some, read_chunks
from thumbindex.study.bench.taken import children, taken_by
from thumbindex.study.bench.unchanged import look_at_files
from thumbindex.study.bench.words import measure_words


def by_name(rows: tuple[Row, ...]) -> dict[str, Row]:
    return {row.name: row for row in rows}


def test_the_command_line_names_what_the_study_measures() -> None:
    assert tuple(MEASURES) == NAMES


def test_what_is_named_is_measured_in_the_order_of_the_table_and_nothing_else() -> None:
    assert (check_names(["disk", "start"]), check_names([])) == (("start", "disk"), NAMES)
    with pytest.raises(UsageError, match="no 'speed' to measure: name any of start"):
        check_names(["speed"])


def test_words_are_measured_beside_whoosh_alone(subject: Subject) -> None:
    rows = by_name(measure_words(subject))
    ours, alone, ratio = rows["indexing, words only"], rows["whoosh alone"], rows["indexing, words only / whoosh alone"]
    assert ratio.values == (ours.values[0] / alone.values[0],)


def test_the_parts_of_an_index_are_all_of_it(subject: Subject) -> None:
    rows = by_name(measure_disk(subject))
    parts = sum(row.median for row in rows.values() if row.unit == "MB" and row.name != "Markdown")
    assert rows["index / Markdown"].median == pytest.approx(parts / rows["Markdown"].median)
    assert round(rows["Markdown"].median * 1e6) == sum(path.stat().st_size for path in subject.where.folder.iterdir())


def test_questions_stand_in_the_notes_and_are_the_same_each_time(subject: Subject) -> None:
    with subject.open(subject.where) as library:
        chunks = read_chunks(library)
    found = draw_questions(chunks, 9)
    assert (len(found), found) == (9, draw_questions(chunks, 9))
    assert {"Sync", "Canvas", "Graph view"} & set(found)


def test_every_question_is_asked_in_every_way(subject: Subject) -> None:
    with subject.open(subject.where) as one, subject.open(subject.where) as other:
        asked = ask_all({"words": one, "hybrid": other}, ("green button", "whiteboard"))
    assert {name: len(found) for name, found in asked.items()} == {"words": 2, "hybrid": 2}


def test_a_sample_holds_notes_up_to_a_size_and_at_least_one(subject: Subject) -> None:
    assert [len(list(copy_some(subject, size).iterdir())) for size in (1, 10_000)] == [1, 3]


def test_every_file_is_looked_at(subject: Subject) -> None:
    assert look_at_files(subject.where.folder) == 3


def test_a_folder_for_a_measurement_is_empty_and_its_own(subject: Subject) -> None:
    made = {subject.begin("x"), subject.begin("x")}
    assert (len(made), [path for each in made for path in each.iterdir()]) == (2, [])


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux tells")
def test_a_process_holds_memory_and_one_that_has_ended_holds_none() -> None:
    here, gone = taken_by(os.getpid()), taken_by(2**22 + 1)
    assert (here.resident >= here.proportional > 1_000_000, gone.resident, children(2**22 + 1)) == (True, 0, [])


def test_figures_of_several_sizes_become_lines() -> None:
    rows = [Row("growth", f"p50, {size:,} chunks", "ms", (size / 100,), size=size) for size in (1_000, 10_000)]
    assert lines_of(rows) == (("p50", ((1_000, 10.0), (10_000, 100.0))),)


def test_nothing_at_several_sizes_is_nothing_to_draw(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to draw"):
        draw_costs(tmp_path, [Row("disk", "index", "MB", (1.0,))])


def test_a_library_is_opened_where_it_is_said(subject: Subject, open_fake: Callable[..., Library], tmp_path: Path) -> None:
    with open_fake(Where(subject.where.folder, tmp_path / "elsewhere")) as library:
        assert library.opened[0].places.folder.parent == tmp_path / "elsewhere"
