"""Lookup of documents by file name, title or alias, ignoring case, accents and punctuation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from thumbindex.model import Document, DocumentId
from thumbindex.text import name_keys


def documents_by_name(documents: Sequence[Document]) -> Mapping[str, Sequence[DocumentId]]:
    """Map the letters and digits of each name (`text.name_keys`) to its documents' sorted ids."""
    by_key: defaultdict[str, dict[DocumentId, None]] = defaultdict(dict)
    every = [
        (DocumentId(n), name) for n, document in enumerate(documents) for name in names_of(document)
    ]
    for is_ascii in (True, False):  # a batch of only ASCII names is folded fast
        names = [(n, name) for n, name in every if name.isascii() is is_ascii]
        keys = name_keys([name for _, name in names])
        for key, (n, _) in zip(keys, names, strict=True):
            by_key[key][n] = None
    return {key: sorted(ids) for key, ids in by_key.items()}


def names_of(document: Document) -> tuple[str, ...]:
    """Return the names of a document: its file name without suffix, its title and its aliases."""
    file = document.path.rpartition("/")[2]
    return (file.rpartition(".")[0] or file, document.title, *document.aliases)
