import pytest

from fakes import FakeEmbedder, document, memory_snapshot
from thumbindex.model import Query
from thumbindex.query.reorder import contradict
from thumbindex.query.stage import Search, Tools

TEXT = "Every night the server copies all files to the second disk and keeps them for {} days."
OTHER = "Trees grow in spring, when rain is warm and birds come back."


def find_pairs(
    candidates, *texts: str, scores: tuple[float, ...] = ()
) -> list[tuple[int, tuple[tuple[int, str], ...]]]:
    snapshot = memory_snapshot(
        [document(f"{chr(97 + n)}.md", text) for n, text in enumerate(texts)]
    )
    search = contradict(
        Search(Query("x"), "x", candidates=candidates(snapshot, *scores)), Tools(snapshot)
    )
    return [(candidate.id, candidate.disagrees) for candidate in search.candidates]


def test_contradicting_texts_are_neighbors_with_differing_words(candidates) -> None:
    pairs = find_pairs(candidates, TEXT.format(30), OTHER, TEXT.format(90), scores=(0.9, 0.8, 0.4))
    assert pairs == [
        (0, ((2, "`30 day` vs. `90 day`"),)),
        (2, ((0, "`90 day` vs. `30 day`"),)),
        (1, ()),
    ]


def test_different_block_types_do_not_contradict(candidates) -> None:
    assert [
        disagrees
        for _, disagrees in find_pairs(candidates, TEXT.format(30), f"- {TEXT.format(90)}")
    ] == [(), ()]


def test_sections_of_one_document_do_not_contradict(candidates) -> None:
    snapshot = memory_snapshot(
        [
            document(
                "a.md", f"# Plans\n\n## Free\n\n{TEXT.format(30)}\n\n## Team\n\n{TEXT.format(90)}"
            )
        ]
    )
    search = contradict(Search(Query("x"), "x", candidates=candidates(snapshot)), Tools(snapshot))
    assert [candidate.disagrees for candidate in search.candidates] == [(), ()]


def test_series_of_texts_does_not_contradict(candidates) -> None:
    assert {
        disagrees
        for _, disagrees in find_pairs(candidates, *(TEXT.format(30 + n) for n in range(5)))
    } == {()}
    assert all(
        disagrees
        for _, disagrees in find_pairs(candidates, *(TEXT.format(30 + n) for n in range(4)))
    )


PERSON = "- Role: engineer\n- Joined: {}\n- Desk: {}"


def contradicting_notes(candidates, notes: dict[str, str]) -> set[str]:
    """Return the notes with a contradicting passage."""
    snapshot = memory_snapshot([document(path, text) for path, text in notes.items()])
    search = contradict(Search(Query("x"), "x", candidates=candidates(snapshot)), Tools(snapshot))
    return {
        list(notes)[candidate.document] for candidate in search.candidates if candidate.disagrees
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("releases/v1.5.7.md", "releases/v1.5.8.md"),
        ("journal/2024-05-01.md", "journal/2024-05-02.md"),
        ("journal/2024/05/01.md", "journal/2024/06/01.md"),
        ("tutorial-1-begin.md", "tutorial-2-first-app.md"),
    ],
)
def test_notes_named_as_a_series_do_not_contradict(candidates, first: str, second: str) -> None:
    assert (
        contradicting_notes(candidates, {first: TEXT.format(30), second: TEXT.format(90)}) == set()
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a/2024-05-01.md", "b/2024-05-01.md"),
        ("2024-05-01/backup.md", "2024-06-01/backup.md"),
        ("1.5.8.md", "Backup.md"),
    ],
)
def test_notes_with_other_names_contradict(candidates, first: str, second: str) -> None:
    assert contradicting_notes(candidates, {first: TEXT.format(30), second: TEXT.format(90)}) == {
        first,
        second,
    }


def test_forms_about_different_things_do_not_contradict(candidates) -> None:
    notes = {
        f"{folder}/{name}.md": f"# {name}\n\n{PERSON.format(2000 + n, n)}"
        for n, (folder, name) in enumerate([("old", "Bob"), ("people", "Ada"), ("people", "Bob")])
    }
    assert contradicting_notes(candidates, notes) == {"people/Bob.md", "old/Bob.md"}


@pytest.mark.parametrize("limit", [1, 3])
def test_contradicting_pair_respects_limit(ask, limit: int) -> None:
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
    assert [(d.path, d.date, d.differs) for d in search.passages[0].disagrees] == [
        ("b.md", "1970-01-01", "`30 day` vs. `90 day`")
    ]


def test_passage_does_not_contradict_itself(ask) -> None:
    search, _ = ask(
        [document("a.md", f"# A\n\n{TEXT.format(30)}\n\n{TEXT.format(90)}")], "server copies files"
    )
    assert [passage.disagrees for passage in search.passages] == [()]


@pytest.mark.parametrize("method", ["discount", "mmr"])
def test_diversify_keeps_contradicting_pair_together(ask, method: str) -> None:
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


def test_rerank_keeps_contradicting_pair_together(ask) -> None:
    class Picky:
        name = "picky"

        def score(self, query, passages):
            return [float("90" not in passage) for passage in passages]

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
