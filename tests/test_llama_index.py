"""A library as a LlamaIndex retriever, in LlamaIndex's own query engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes import FakeEmbedder, FakeReranker
from folders import write_notes
from thumbindex.config import load_config
from thumbindex.library import Library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    notes = {
        "sync.md": "# Sync\n\n## Set up\n\nPress the green button to begin syncing.\n",
        "canvas.md": "# Canvas\n\nDraw boxes and arrows on a whiteboard.\n",
    }
    vault = write_notes(tmp_path_factory.mktemp("vault"), notes)
    with Library.open(
        [vault],
        index=tmp_path_factory.mktemp("index"),
        embedder=FakeEmbedder(),
        reranker=FakeReranker(),
    ) as library:
        library.index()
        yield library


@pytest.mark.slow
def test_query_engine_answers_from_cited_passages(library: Library) -> None:
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine

    from thumbindex.llama_index import ThumbindexRetriever

    engine = RetrieverQueryEngine.from_args(ThumbindexRetriever(library, limit=1), llm=MockLLM())
    response = engine.query("Where is the green button to begin syncing?")
    node = response.source_nodes[0]
    assert node.metadata["citation"].startswith("sync.md#Set up (lines ")
    assert (node.metadata["path"], node.metadata["heading_path"]) == ("sync.md", ["Sync", "Set up"])
    # the mock answers with its prompt
    assert f"citation: {node.metadata['citation']}" in str(response)
    assert "Press the green button to begin syncing." in str(response)


def test_retriever_applies_query_filters(library: Library) -> None:
    from thumbindex.llama_index import ThumbindexRetriever

    retriever = ThumbindexRetriever(library, path=("canvas.md",))
    assert [
        node.metadata["path"]
        for node in retriever.retrieve("draw boxes and arrows, press the green button")
    ] == ["canvas.md"]


def test_no_answer_returns_no_nodes(library: Library) -> None:
    from thumbindex.llama_index import ThumbindexRetriever

    assert ThumbindexRetriever(library).retrieve("xyzzyq plughw") == []


def test_passages_have_distinct_node_ids(tmp_path: Path) -> None:
    from thumbindex.llama_index import ThumbindexRetriever

    notes = {
        (
            "work",
            "home/sync.md",
        ): (
            f"{'Syncing copies whole vaults at midnight. ' * 40}\n\n## Phones\n\n"
            f"{'A telephone is syncing by wireless. ' * 40}"
        ),
        ("work/home", "sync.md"): "Before syncing, grandmother waters her tomatoes.",
        ("desk", "home/sync.md"): "Drums and bass are syncing in the second verse.",
    }
    toml = "[folders]\n"
    for n, ((folder, path), text) in enumerate(notes.items()):
        (tmp_path / f"{n}" / path).parent.mkdir(parents=True)
        (tmp_path / f"{n}" / path).write_text(f"# Sync\n\n{text}\n", encoding="utf-8")
        toml += f'"{folder}" = "{n}"\n'
    (tmp_path / "config.toml").write_text(toml, encoding="utf-8")
    config = load_config(user_file=tmp_path / "none", config_file=tmp_path / "config.toml")
    with Library.open(index=tmp_path / "index", config=config, embedder=FakeEmbedder()) as library:
        library.index()
        nodes = ThumbindexRetriever(library, limit=20).retrieve("syncing")
    assert (len(nodes), len({node.node_id for node in nodes})) == (4, 4)
