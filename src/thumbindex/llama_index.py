"""Use a library as a LlamaIndex retriever. Importing this module imports LlamaIndex."""

from __future__ import annotations

from typing import Any, Unpack
from urllib.parse import quote

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from thumbindex.library import Library
from thumbindex.model import Passage, QueryArguments
from thumbindex.settings import MAX_PHRASING_CHARS, MAX_REWORDINGS

_HIDDEN = [
    "address",
    "folder",
    "path",
    "heading_path",
    "start_line",
    "end_line",
    "match_start_line",
    "match_end_line",
]
"""Metadata hidden from the answering model, which needs only the citation."""


# mypy does not follow imports of LlamaIndex
class ThumbindexRetriever(BaseRetriever):  # type: ignore[misc]
    """Retrieves cited passages from a library; returns no nodes if there is no answer."""

    def __init__(
        self, library: Library, *, callback_manager: Any = None, **arguments: Unpack[QueryArguments]
    ) -> None:
        self._library = library
        self._arguments = arguments
        super().__init__(callback_manager=callback_manager)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        # as in HyDE: a hypothetical answer, then rewordings
        hypothetical, *rewordings = [
            text[:MAX_PHRASING_CHARS]
            for text in query_bundle.custom_embedding_strs or ()
            if text != query_bundle.query_str
        ] or [""]
        arguments: QueryArguments = {
            **self._arguments,
            "passage": hypothetical,
            "also": rewordings[:MAX_REWORDINGS],
        }
        answer = self._library.query(query_bundle.query_str, **arguments)
        return [as_node(passage) for passage in answer.passages if answer.found]


def as_node(passage: Passage) -> NodeWithScore:
    """Return a passage as a LlamaIndex node: text, score, and its location as metadata."""
    metadata = {
        "citation": passage.citation,
        "address": passage.address,
        "folder": passage.folder,
        "path": passage.path,
        "heading_path": list(passage.heading_path),
        "start_line": passage.start_line,
        "end_line": passage.end_line,
        "match_start_line": passage.match_start_line,
        "match_end_line": passage.match_end_line,
    }
    # LlamaIndex merges and caches nodes by id, so a passage must always have the same id. The
    # folder's name is quoted because it may contain slashes.
    identity = (
        f"{quote(passage.folder, safe='')}/{passage.path}:{passage.start_line}-{passage.end_line}"
    )
    node = TextNode(
        id_=identity,
        text=passage.text,
        metadata=metadata,
        excluded_llm_metadata_keys=_HIDDEN,
        excluded_embed_metadata_keys=list(metadata),
    )
    return NodeWithScore(node=node, score=passage.score)
