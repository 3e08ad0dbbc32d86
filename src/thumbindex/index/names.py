"""Lookup of documents by file name, title or alias, ignoring case, accents and punctuation."""

from __future__ import annotations

from collections.abc import Sequence

from thumbindex.model import Document, DocumentId
from thumbindex.text import name_keys


class DocumentNames:
    """Finds documents by the letters and digits of their names."""

    def __init__(self, documents: Sequence[Document]) -> None:
        # the document and length of each name, keyed by `name_keys`; length 0 if not ASCII
        self._names: dict[str, list[tuple[int, int]]] = {}
        every = [(n, name) for n, document in enumerate(documents) for name in names_of(document)]
        for is_ascii in (True, False):  # a batch of only ASCII names is folded fast
            names = [(n, name) for n, name in every if name.isascii() is is_ascii]
            keys = name_keys([name for _, name in names])
            for key, (n, name) in zip(keys, names, strict=True):
                self._names.setdefault(key, []).append((n, len(name) if is_ascii else 0))

    def documents_named(self, letters: str, longest: int) -> list[DocumentId]:
        """Return the sorted ids of the documents with a name whose key is `letters`.

        `text.name_keys` makes the keys. ASCII names with more than `longest` characters are
        omitted.
        """
        names = self._names.get(letters, ())
        return sorted({DocumentId(n) for n, length in names if length <= longest})


def names_of(document: Document) -> tuple[str, ...]:
    """Return the names of a document: its file name without suffix, its title and its aliases."""
    file = document.path.rpartition("/")[2]
    return (file.rpartition(".")[0] or file, document.title, *document.aliases)
