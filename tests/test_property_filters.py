"""Filters by properties: typed in a query, passed as `where`, and compared with a plain reading."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from folders import open_library, write_notes
from plain_conditions import meets
from thumbindex.errors import UsageError
from thumbindex.index.filters import FilterIndex
from thumbindex.library import Library
from thumbindex.model import Document, Filters, TypedFilter, UnmetFilter

NOTES = {
    "plan.md": (
        "---\nstatus: doing\nrating: 4\ndue: 2026-12-01\nauthor: [Ada L, '[[people/Bo|B.]]']\n---\n"
        "The budget of the garden."
    ),
    "old.md": (
        "---\nstatus: done\nrating: 10\ndue: '[[2026-01-15]]'\ntype: memo\n---\n"
        "The budget of the house."
    ),
    "log.md": "tags:: a\nstatus:: Doing\npriorité:: haute\n\n- The budget of the roof [cost:: 3.5]",
    "idea.md": "---\ndue: 2026-12\n---\nThe budget of the boat. Type: script.",
    "plain.md": "The budget of nothing. http://status.example C:\\due std::status 12:30 re:status.",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    root = write_notes(tmp_path_factory.mktemp("properties") / "vault", NOTES)
    with open_library(root) as library:
        library.index()
        yield library


CONDITIONS = [
    ("status:doing", {"plan", "log"}),
    ("status=DOING", {"plan", "log"}),
    ("-status:doing", {"old", "idea", "plain"}),
    ("has:due", {"plan", "old", "idea"}),
    ("-has:status", {"idea", "plain"}),
    ("rating>=4", {"plan", "old"}),
    ("rating>4", {"old"}),
    ("rating<10", {"plan"}),
    ("cost<=3.50", {"log"}),
    ("due<2026-12", {"old"}),
    ("due<=2026-12", {"plan", "old", "idea"}),
    ("due:2026-12", {"plan", "idea"}),
    ("due>2026-01-15", {"plan", "idea"}),
    ("due:2026", {"plan", "old", "idea"}),
    ('author:"ada l"', {"plan"}),
    ("author:Bo", {"plan"}),
    ("author:[[elsewhere/people/Bo]]", {"plan"}),
    ("priorite:HAUTE", {"log"}),
]


@pytest.mark.parametrize(("condition", "names"), CONDITIONS)
def test_typed_condition_narrows_a_query(library: Library, condition: str, names: set[str]) -> None:
    answer = library.query(f"budget {condition}", limit=10)
    assert {passage.path.removesuffix(".md") for passage in answer.passages} == names
    assert answer.unmet == ()


@pytest.mark.parametrize(
    ("condition", "names"), [*CONDITIONS, ("author : Ada L", {"plan"}), ("tag:#A", {"log"})]
)
def test_where_narrows_lists_and_queries(library: Library, condition: str, names: set[str]) -> None:
    listed = library.listing(where=[condition])
    answer = library.query("budget", where=[condition], limit=10)
    assert {note.path.removesuffix(".md") for note in listed.notes} == names
    assert {passage.path.removesuffix(".md") for passage in answer.passages} == names
    assert library.orphans(where=[condition]).notes == listed.notes


def test_all_conditions_must_match(library: Library) -> None:
    where = ["status:doing", "rating>=4"]
    assert [note.path for note in library.listing(where=where).notes] == ["plan.md"]


@pytest.mark.parametrize(
    "query",
    [
        "http://status.example budget",
        "C:\\due budget",
        "std::status budget",
        "status::done budget",
        "at 12:30 budget",
        "re:status budget",
        "note: status budget",
        "status: done budget",
        "`status:done` budget",
        "set timeout=30 budget",
        "numpy>=1.20 budget",
        "if (rating==4) budget",
        "budget --status:done",
        "<script type=module> budget",
        "grep -r type:nothing src/app",
        "budget\nstatus:done",
        "budget :)",
        'budget status:"  "',
    ],
)
def test_prose_and_code_have_no_conditions(library: Library, query: str) -> None:
    answer = library.query(query)
    assert (answer.filters, answer.unmet) == ((), ())


@pytest.mark.parametrize(
    ("query", "value", "nearest", "filters"),
    [
        ("budget status:doin", "status:doin", ("status:Doing", "status:done"), ()),
        ("budget dues<2027", "dues<2027", ("has:due",), ()),
        ("dues<2027", "dues<2027", ("has:due",), ()),
        ("budget has:xyz", "has:xyz", (), ()),
        ("rating>99", "rating>99", (), (TypedFilter.of("rating>99"),)),
    ],
)
def test_condition_without_a_match_is_reported(
    library: Library, query: str, value: str, nearest: tuple[str, ...], filters: tuple[TypedFilter]
) -> None:
    answer = library.query(query)
    expected = UnmetFilter("property", value, nearest, as_words=not filters)
    assert (answer.unmet, answer.filters) == ((expected,), filters)


def test_unknown_key_or_value_in_where_suggests_names(library: Library) -> None:
    where = ["statsu:doing", "status:doin", "-author:ada"]
    expected = (
        UnmetFilter("property", "statsu:doing", ("has:status", "has:tags")),
        UnmetFilter("property", "status:doin", ("status:Doing", "status:done")),
        UnmetFilter("property", "author:ada", ('author:"Ada L"',)),
    )
    assert library.listing(where=where).unmet == expected
    assert library.query("budget", where=where).unmet == expected


def test_value_of_quotation_marks_is_not_suggested(tmp_path: Path) -> None:
    root = write_notes(tmp_path / "vault", {"a.md": '---\nrating: \'""""\'\n---\nabc'})
    with open_library(root) as library:
        library.index()
        unmet = library.query("abc", where=['rating:5""""""5']).unmet
    assert unmet == (UnmetFilter("property", 'rating:5""""""5'),)


@pytest.mark.parametrize(
    ("value", "equal"),
    [
        ("1.10", {"1.10"}),
        ("1.1", {"1.1"}),
        ("007", {"007"}),
        ("7", {"7", "7.0"}),
        ("7.00", {"7", "7.0"}),
    ],
)
def test_identifiers_and_versions_are_no_numbers(value: str, equal: set[str]) -> None:
    texts = ["1.10", "1.1", "007", "7", "7.0"]
    documents = [Document(f"{text}.md", "", properties={"v": (text,)}) for text in texts]
    passing = FilterIndex(documents).documents_passing(Filters.of(where=[f"v:{value}"]))
    assert {text for text, passes in zip(texts, passing, strict=True) if passes} == equal


@pytest.mark.parametrize("day", ["2026-00", "2026-00-15", "2026-05-00", "2026-13"])
def test_impossible_day_is_no_period(day: str) -> None:
    documents = [Document("a.md", "", properties={"due": ("2026-05-02",)})]
    passing = FilterIndex(documents).documents_passing(Filters.of(where=[f"due>={day}"]))
    assert passing.tolist() == [False]
    with pytest.raises(UsageError, match="write a date"):
        Filters.of(since=day)


def test_frequent_keys_are_those_that_a_condition_can_name(tmp_path: Path) -> None:
    keys = ["tag", "path", "file", "title", "has", "'a:b'", "status", "'due date'"]
    text = "".join(["---\n", *(f"{key}: x\n" for key in keys), "---\nThe budget."])
    with open_library(write_notes(tmp_path / "vault", {"a.md": text})) as library:
        library.index()
        offered = library.frequent_keys()
        listed = [len(library.listing(where=[f"{key}:x"]).notes) for key in offered]
    assert (offered, listed) == (("due date", "status"), [1, 1])


def test_suggested_conditions_of_two_folders_begin_with_the_most_similar(tmp_path: Path) -> None:
    roots = [
        write_notes(tmp_path / name, {"a.md": f"---\nstatus: {status}\n---\nThe budget."})
        for name, status in (("one", "draft"), ("two", "drafted"))
    ]
    with open_library(*roots) as library:
        library.index()
        (unmet,) = library.query("budget", where=["status:drafte"]).unmet
        (misspelled,) = library.query("budget", where=["statu:drafted"]).unmet
    assert unmet.nearest == ("status:drafted", "status:draft")
    assert misspelled.nearest == ("has:status",)


@pytest.mark.parametrize("condition", ["", "status", "status:", ":done", ">=4", "has:", "-", '""'])
def test_malformed_condition_is_an_error_with_an_example(library: Library, condition: str) -> None:
    with pytest.raises(UsageError, match="write status:doing, rating>=4"):
        library.listing(where=[condition])


TEXTS = st.sampled_from(
    [
        *"4 4.0 -2 10 2026 2026-12 2026-12-01 2026-12-01T10:00 doing DÓING Alpha".split(),
        *"[[2026-12-01]] [[daily/2026-12|x]] [[Alpha]] [[notes/Alpha#h|a]] notes/Alpha".split(),
        *"[x](notes/alpha.md) Alpha.md".split(),
        "two words",
    ]
)
PROPERTIES = st.dictionaries(
    st.sampled_from(["status", "due", "priorité"]), st.lists(TEXTS, min_size=1, max_size=3)
)


@given(
    st.lists(PROPERTIES, max_size=6),
    st.lists(
        st.builds(
            "{}{}{}{}".format,
            st.sampled_from(["", "-"]),
            st.sampled_from(["status", "due", "PRIORITE", "none"]),
            st.sampled_from([":", "=", "<", "<=", ">", ">="]),
            TEXTS,
        )
        | st.sampled_from(["has:due", "-has:status"]),
        max_size=2,
    ),
)
def test_filters_equal_a_plain_reading(notes: list[dict[str, list[str]]], where: list[str]) -> None:
    documents = [
        Document(f"{n}.md", "", properties={key: tuple(texts) for key, texts in note.items()})
        for n, note in enumerate(notes)
    ]
    passing = FilterIndex(documents).documents_passing(Filters.of(where=where))
    assert np.flatnonzero(passing).tolist() == [
        n for n, note in enumerate(notes) if all(meets(note, condition) for condition in where)
    ]
