"""A passage with all words of a short query comes before passages that only mean the same."""

import pytest

from fakes import document, memory_snapshot
from thumbindex.model import Query
from thumbindex.query.reorder import all_words
from thumbindex.query.retrieve import search_code, search_keyword
from thumbindex.query.stage import Phrasing, Search, Tools
from thumbindex.query.understand import parse_terms

DECIDED = "Ada and Bo decided on PostgreSQL. They keep SQLite on the phones."
LINKS = "PostgreSQL history, PostgreSQL tuning, PostgreSQL backups."
APART = f"PostgreSQL. {'One of many links. ' * 20} It is not yet decided."


def first(query: str, *texts: str, candidates, others: tuple[Phrasing, ...] = ()) -> str:
    """Return the text that comes first. Meaning prefers the texts in the given order."""
    snapshot = memory_snapshot(
        [document(f"{n}.md", f"# Note\n\n{text}") for n, text in enumerate(texts)]
    )
    tools = Tools(snapshot)
    terms, identifiers = parse_terms(query, tools)
    scores = [0.9 - 0.1 * n for n in range(len(texts))]
    search = Search(
        Query(query),
        query,
        terms=terms,
        identifiers=identifiers,
        other_phrasings=others,
        candidates=candidates(snapshot, *scores),
    )
    ranked = all_words(search_code(search_keyword(search, tools), tools), tools)
    return texts[ranked.candidates[0].document]


@pytest.mark.parametrize(
    ("query", "texts", "best"),
    [
        ("who decided on PostgreSQL, and why?", (LINKS, DECIDED), DECIDED),
        ("who decided on PostgreSQL yesteryear?", (LINKS, DECIDED), DECIDED),
        ("who decided on PostgreSQL?", (LINKS, APART), LINKS),
        ("who decided on PostgreSQL?", (APART, DECIDED), APART),
        ("PostgreSQL", (DECIDED, LINKS), DECIDED),
        ("when did Ada and Bo decide on PostgreSQL, SQLite, phones?", (LINKS, DECIDED), LINKS),
        (
            "deploy_prod_eu",
            ("Deploy to prod in the EU.", "The job is `deploy_prod_eu`."),
            "The job is `deploy_prod_eu`.",
        ),
    ],
    ids="complete unknown-word apart best-is-complete one-word long identifier".split(),
)
def test_all_words_close_together_come_first(query: str, texts, best: str, candidates) -> None:
    assert first(query, *texts, candidates=candidates) == best


def test_rewordings_decide_without_it(candidates) -> None:
    rewording = Phrasing("also 1", "database choice")
    query = "who decided on PostgreSQL?"
    assert first(query, LINKS, DECIDED, candidates=candidates, others=(rewording,)) == LINKS
