"""Lookup of documents by file name, title or alias, ignoring case, accents and punctuation."""

from __future__ import annotations

from collections.abc import Sequence

from thumbindex.model import Document, DocumentId
from thumbindex.text import name_keys


class DocumentNames:
    """Documents by the letters and digits of their names."""

    def __init__(self, documents: Sequence[Document]) -> None:
        # document and length of each name, by key; length 0 if not ASCII
        self._names: dict[str, list[tuple[int, int]]] = {}
        every = [(n, name) for n, document in enumerate(documents) for name in names_of(document)]
        for is_ascii in (True, False):  # folding a batch of ASCII names is fast
            names = [(n, name) for n, name in every if name.isascii() is is_ascii]
            keys = name_keys([name for _, name in names])
            for key, (n, name) in zip(keys, names, strict=True):
                self._names.setdefault(key, []).append((n, len(name) if is_ascii else 0))

    def documents_named(self, letters: str, longest: int) -> list[DocumentId]:
        """Return the documents with a name of these letters and digits, ascending.

        An ASCII name may have at most `longest` characters.
        """
        names = self._names.get(letters, ())
        return sorted({DocumentId(n) for n, length in names if length <= longest})


def names_of(document: Document) -> tuple[str, ...]:
    """Return a document's file name without suffix, title and aliases."""
    file = document.path.rpartition("/")[2]
    return (file.rpartition(".")[0] or file, document.title, *document.aliases)
