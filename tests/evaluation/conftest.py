"""A small vault, indexed with fake models, and labeled queries for it."""

from collections.abc import Iterator

import pytest

from fakes import FakeEmbedder, FakeReranker
from folders import write_notes
from thumbindex.evaluation.queries import Label, LabeledQuery
from thumbindex.evaluation.runner import Evaluation, QuerySource, evaluate
from thumbindex.library import Library

NOTES = {
    "sync.md": (
        "# Sync\n\n## Set up\n\nPress the green button to begin syncing your vault.\n\n"
        "## Conflicts\n\nThe newer note wins. See [[canvas]].\n"
    ),
    "canvas.md": "# Canvas\n\nDraw boxes and arrows on an endless whiteboard.\n",
    "graph.md": "# Graph view\n\nShows how notes link to each other as dots and lines.\n",
}

QUERIES = (
    LabeledQuery("q1", "press the green button", "keyword", (Label("sync.md", "Set up", 2),)),
    LabeledQuery("q2", "endless whiteboard", "keyword", (Label("canvas.md", None, 2),)),
    LabeledQuery(
        "q3",
        "how do notes link to each other?",
        "question",
        (Label("graph.md", None, 2), Label("sync.md", None, 1)),
    ),
)


@pytest.fixture(scope="package")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    root = write_notes(tmp_path_factory.mktemp("evaluation") / "vault", NOTES)
    with Library.open(
        [root], index=root.parent / "index", embedder=FakeEmbedder(), reranker=FakeReranker()
    ) as library:
        library.index()
        yield library


@pytest.fixture(scope="package")
def source(library: Library) -> QuerySource:
    return QuerySource("vault.manual", library, QUERIES)


@pytest.fixture(scope="package")
def evaluation(library: Library) -> Evaluation:
    return evaluate(library, QUERIES, name="vault.manual")
