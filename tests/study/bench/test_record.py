"""A run of the benchmark, shown, kept and compared: a target is met or missed by the median, and noise is not told as a change."""

import json
from pathlib import Path

import jsonschema
import pytest

from thumbindex.errors import UsageError
from thumbindex.study.bench.record import bench_tables, machine, read_record, write_record
from thumbindex.study.bench.row import Row, Target, ratios

SCHEMA = Path(__file__).parents[3] / "docs" / "schema" / "bench.json"

ROWS = (
    Row("query", "p50", "ms", (3.0, 4.0, 9.0), Target(most=5.0), "note"),
    Row("words", "ratio", "×", (0.5,), Target(least=0.6)),
    Row("disk", "index", "MB", (12.0,)),
)


def test_a_target_is_met_or_missed_by_the_median() -> None:
    assert [row.met for row in ROWS] == [True, False, None]


def test_reference_and_ours_are_divided_round_by_round() -> None:
    assert ratios((2.0, 9.0), (1.0, 3.0)) == (2.0, 3.0)


def test_a_table_shows_medians_spreads_and_targets() -> None:
    (table,) = bench_tables(ROWS, {"cores": 2, "python": "3.11", "load": 0.0}, {})
    assert table.rows[0] == ("query", "p50", "4", "3", "9", "ms", "≤ 5", "met")
    assert table.notes == ("1 of 2 targets met; 2 cores, Python 3.11.", "query: p50: note")


def test_a_busy_machine_is_named() -> None:
    (table,) = bench_tables(ROWS, {"cores": 2, "python": "3.11", "load": 1.5}, {})
    assert table.notes[-1].startswith("The machine was busy before it began (load 1.5)")


def test_what_was_written_is_compared_with_and_fits_its_schema(tmp_path: Path) -> None:
    write_record(tmp_path / "run.json", ROWS, machine())
    jsonschema.validate(json.loads((tmp_path / "run.json").read_text(encoding="utf-8")), json.loads(SCHEMA.read_text(encoding="utf-8")))
    later = (Row("query", "p50", "ms", (8.0, 8.5, 8.6)), Row("disk", "index", "MB", (6.0,)))
    (table,) = bench_tables(later, machine(), read_record(tmp_path / "run.json"))
    assert [row[-2:] for row in table.rows] == [("4", "+112% (ranges overlap)"), ("12", "-50%")]


@pytest.mark.parametrize("text", ["", "[]", '{"rows": [{"what": "x"}]}'])
def test_a_file_that_is_no_run_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="not what `thumbindex bench --json FILE` writes"):
        read_record(tmp_path / "run.json")
