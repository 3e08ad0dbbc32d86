import pytest
from hypothesis import given
from hypothesis import strategies as st

from thumbindex.model import Disagreement, Passage, Place, Query
from thumbindex.query.copies import contradict, with_partners, without_series
from thumbindex.query.pipeline import cut
from thumbindex.query.stage import Search, Tools
from thumbindex.testing import FakeEmbedder, document, memory_snapshot

TEXT = "Every night the server copies all files to the second disk and keeps them for {} days."
OTHER = "Trees grow in spring, when rain is warm and birds come back."


def paired(
    candidates, *texts: str, scores: tuple[float, ...] = ()
) -> list[tuple[int, tuple[tuple[int, str], ...]]]:
    snapshot = memory_snapshot([document(f"{n}.md", text) for n, text in enumerate(texts)])
    search = contradict(
        Search(Query("x"), "x", candidates=candidates(snapshot, *scores)), Tools(snapshot)
    )
    return [(each.id, each.disagrees) for each in search.candidates]


def test_the_second_follows_the_first_and_each_names_the_words(candidates) -> None:
    found = paired(candidates, TEXT.format(30), OTHER, TEXT.format(90), scores=(0.9, 0.8, 0.4))
    assert found == [
        (0, ((2, "`30 day` against `90 day`"),)),
        (2, ((0, "`90 day` against `30 day`"),)),
        (1, ()),
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "The client supports resumable uploads of large files.",
            "The client does not support resumable uploads of large files.",
        ),
        (
            "Folders are scanned since version 2.3.1 of the desktop app.",
            "Folders are scanned since version 2.4.0 of the desktop app.",
        ),
        (
            "The contract for the old office ends on 2026-03-31 at noon.",
            "The contract for the old office ends on 2026-06-30 at noon.",
        ),
    ],
)
def test_a_negation_version_or_date_makes_a_pair(candidates, first: str, second: str) -> None:
    assert [bool(disagrees) for _, disagrees in paired(candidates, first, second)] == [True, True]


def test_another_subject_is_no_contradiction(candidates) -> None:
    texts = (
        "New notes are placed in the folder below, 30 at most.",
        "New images are placed in the folder below, 90 at most.",
    )
    assert [disagrees for _, disagrees in paired(candidates, *texts)] == [(), ()]


def test_another_kind_is_no_contradiction(candidates) -> None:
    assert [
        disagrees for _, disagrees in paired(candidates, TEXT.format(30), f"- {TEXT.format(90)}")
    ] == [(), ()]


def test_parallel_passages_of_one_document_are_no_contradiction(candidates) -> None:
    snapshot = memory_snapshot(
        [
            document(
                "a.md", f"# Plans\n\n## Free\n\n{TEXT.format(30)}\n\n## Team\n\n{TEXT.format(90)}"
            )
        ]
    )
    search = contradict(Search(Query("x"), "x", candidates=candidates(snapshot)), Tools(snapshot))
    assert [each.disagrees for each in search.candidates] == [(), ()]


def test_a_series_is_no_contradiction(candidates) -> None:
    assert {
        disagrees for _, disagrees in paired(candidates, *(TEXT.format(30 + n) for n in range(5)))
    } == {()}
    assert all(
        disagrees for _, disagrees in paired(candidates, *(TEXT.format(30 + n) for n in range(4)))
    )


PERSON = "- Role: engineer\n- Joined: {}\n- Desk: {}"


def disagreeing(candidates, notes: dict[str, str]) -> set[str]:
    """Return the notes of which a passage is said to disagree with another one."""
    snapshot = memory_snapshot([document(path, text) for path, text in notes.items()])
    search = contradict(Search(Query("x"), "x", candidates=candidates(snapshot)), Tools(snapshot))
    return {list(notes)[each.document] for each in search.candidates if each.disagrees}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("releases/v1.5.7.md", "releases/v1.5.8.md"),
        ("1.5.md", "1.6.md"),
        ("journal/2024-05-01.md", "journal/2024-05-02.md"),
        ("2023/2023-12-31 Daily.md", "2024/2024-01-01 Daily.md"),
        ("journal/2024/05/01.md", "journal/2024/06/01.md"),
        ("2024-W07.md", "2024-W08.md"),
    ],
)
def test_notes_of_two_releases_or_days_do_not_disagree(candidates, first: str, second: str) -> None:
    assert disagreeing(candidates, {first: TEXT.format(30), second: TEXT.format(90)}) == set()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a/2024-05-01.md", "b/2024-05-01.md"),  # one day
        ("2024-05-01/backup.md", "2024-06-01/backup.md"),  # two states of one note
        ("v1/limits.md", "v2/limits.md"),
        ("Plan 2024.md", "Plan 2025.md"),
        ("1.5.8.md", "Backup.md"),
    ],
)
def test_two_notes_of_any_other_name_do(candidates, first: str, second: str) -> None:
    assert disagreeing(candidates, {first: TEXT.format(30), second: TEXT.format(90)}) == {
        first,
        second,
    }


def test_three_pages_of_one_form_do_not_disagree_and_two_do(candidates) -> None:
    pages = {
        f"people/{name}.md": f"# {name}\n\n{PERSON.format(2000 + n, n)}"
        for n, name in enumerate(("Ada", "Bob", "Cleo"))
    }
    assert disagreeing(candidates, pages) == set()
    assert disagreeing(candidates, dict(list(pages.items())[:2])) == {
        "people/Ada.md",
        "people/Bob.md",
    }
    copies = {**dict(list(pages.items())[:2]), "people/Copy of Ada.md": pages["people/Ada.md"]}
    assert "people/Bob.md" in disagreeing(candidates, copies)


def test_three_notes_that_state_one_fact_in_three_ways_disagree(candidates) -> None:
    notes = {
        f"{name}.md": TEXT.format(days)
        for name, days in (("Backup", 30), ("Server", 60), ("Disks", 90))
    }
    wrapped = {path: text.replace("copies ", "copies\n") for path, text in notes.items()}
    assert disagreeing(candidates, notes) == disagreeing(candidates, wrapped) == set(notes)


def test_what_disagrees_only_with_a_series_disagrees_with_nothing() -> None:
    assert without_series({0: {1: "", 2: ""}, 1: {0: ""}, 2: {0: ""}}, 2) == {}


def test_the_pair_has_the_better_one_s_score(candidates) -> None:
    snapshot = memory_snapshot(
        [
            document("a.md", TEXT.format(30)),
            document("b.md", OTHER),
            document("c.md", TEXT.format(90)),
        ]
    )
    search = contradict(
        Search(Query("x"), "x", candidates=candidates(snapshot, 0.9, 0.8, 0.4)), Tools(snapshot)
    )
    assert [(each.id, each.score) for each in search.candidates] == [(0, 0.9), (2, 0.9), (1, 0.8)]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_pair_never_makes_more_than_the_limit_and_is_told_where_it_is_cut(
    ask, limit: int
) -> None:
    notes = [
        document("a.md", TEXT.format(30)),
        document("b.md", TEXT.format(90), date="1970-01-01"),
        document("c.md", f"Files. {OTHER}"),
    ]
    search, _ = ask(
        notes,
        Query("server copies all files every night", limit=limit),
        confidence={"minimum_relevance": 0.0},
    )
    assert [passage.path for passage in search.passages] == ["a.md", "b.md", "c.md"][:limit]
    assert [(d.place.path, d.date, d.differs) for d in search.passages[0].disagrees] == [
        ("b.md", "1970-01-01", "`30 day` against `90 day`")
    ]


def test_at_the_limit_a_pair_takes_the_places_of_two_that_agree() -> None:
    def passage(number: int, *others: int) -> Passage:
        disagrees = tuple(Disagreement(Place("f", f"{other}.md", 1, 1), "", "") for other in others)
        return Passage(
            number + 1, "f", f"{number}.md", "T", ("T",), 1, 1, 1, 1, 1.0, "x", disagrees=disagrees
        )

    passages = [passage(0), passage(1), passage(2), passage(3, 4), passage(4, 3)]
    assert [(each.rank, each.path) for each in cut(passages, 4)] == [
        (1, "0.md"),
        (2, "1.md"),
        (3, "3.md"),
        (4, "4.md"),
    ]
    assert [each.path for each in cut(passages, 3)] == ["0.md", "1.md", "2.md"]
    assert [each.path for each in cut(passages[2:], 2)] == ["3.md", "4.md"]
    assert [each.path for each in cut(passages[3:], 1)] == ["3.md"]


@pytest.mark.parametrize("method", ["discount", "mmr"])
def test_diversify_parts_no_pair(ask, method: str) -> None:
    parts = [f"The server copies file {word}." for word in "oak elm ash fir".split()] + [
        TEXT.format(30)
    ]
    one = "# A\n\n" + "\n\n".join(f"## H{n}\n\n{part}" for n, part in enumerate(parts))
    notes = [document("a.md", one), document("b.md", f"# B\n\n{TEXT.format(90)}")]
    search, _ = ask(
        notes,
        "server copies file second disk night",
        embedder=FakeEmbedder(),
        diversify={"discount": 0.1, "method": method},
    )
    at = [bool(passage.disagrees) for passage in search.passages]
    assert (at.count(True), at.index(True) + 1) == (2, len(at) - 1 - at[::-1].index(True))


def test_a_pair_in_one_passage_is_read_together(ask) -> None:
    search, _ = ask(
        [document("a.md", f"# A\n\n{TEXT.format(30)}\n\n{TEXT.format(90)}")], "server copies files"
    )
    assert [passage.disagrees for passage in search.passages] == [()]


def test_the_reranker_parts_no_pair(ask) -> None:
    class Picky:
        name = "picky"

        def score(self, query, passages):
            return [float("90" not in each) for each in passages]

    notes = [
        document("a.md", TEXT.format(30)),
        document("b.md", "The server copies all files."),
        document("c.md", TEXT.format(90)),
    ]
    search, _ = ask(
        notes, "server copies all files", reranker=Picky(), on="rerank", rerank={"weight": 1.0}
    )
    assert [passage.path for passage in search.passages] in (
        ["a.md", "c.md", "b.md"],
        ["b.md", "a.md", "c.md"],
    )


@given(
    st.lists(st.integers(0, 20), unique=True, max_size=10),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=4),
)
def test_all_stay_and_only_partners_move_up(items: list[int], pairs: list[tuple[int, int]]) -> None:
    partners = {n: {b for a, b in pairs if a == n} | {a for a, b in pairs if b == n} for n in items}
    ordered = with_partners(items, lambda n: n, partners.__getitem__)
    assert sorted(ordered) == sorted(items)
    alone = [n for n in items if not partners[n]]
    assert [n for n in ordered if n in alone] == alone


def test_no_candidates_stay_none() -> None:
    assert contradict(Search(Query("x"), "x"), Tools(memory_snapshot([]))).candidates == ()
