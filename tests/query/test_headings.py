from fakes import document, memory_snapshot
from thumbindex.model import Query
from thumbindex.query.rank import heading_coverage, headings
from thumbindex.query.stage import Search, Tools

PAGE = (
    "# Sync\n\nAll of it in short.\n\n## Limits\n\nFour of them.\n\n## Storage limits\n\n"
    "Ten gigabytes."
)


def ranking_for(
    candidates, query: str, *scores: float, page: str = PAGE
) -> list[tuple[int, float]]:
    snapshot = memory_snapshot(
        [document("a.md", page), document("b.md", "# Other\n\nSomething else.")]
    )
    search = headings(
        Search(Query(query), query, candidates=candidates(snapshot, *scores)), Tools(snapshot)
    )
    return [(candidate.id, round(candidate.score, 3)) for candidate in search.candidates]


def test_section_with_query_words_in_headings_comes_first(
    candidates,
) -> None:
    ranking = ranking_for(candidates, "what are the storage limits", 0.9, 0.8, 0.8, 0.3)
    assert ([n for n, _ in ranking], ranking[0]) == ([2, 0, 1, 3], (2, 0.9))


def test_headings_do_not_reorder_documents(candidates) -> None:
    assert ranking_for(candidates, "storage limits", 0.5, 0.4, 0.4, 0.6)[0] == (3, 0.6)


def test_headings_without_query_words_change_nothing(candidates) -> None:
    assert ranking_for(candidates, "how much is free", 0.9, 0.8, 0.7, 0.3) == [
        (0, 0.9),
        (1, 0.8),
        (2, 0.7),
        (3, 0.3),
    ]


def test_heading_coverage_compares_stems() -> None:
    assert (
        heading_coverage(("Storing a file", "Limit"), frozenset({"stor", "limit", "size", "day"}))
        == 0.5
    )
