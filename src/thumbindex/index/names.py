"""Documents by what they are called: their files, titles and aliases, whatever the case, accents
and signs.
"""

from __future__ import annotations

from collections.abc import Sequence

from thumbindex.model import Document, DocumentId
from thumbindex.text import name_keys


class DocumentNames:
    """Documents by the letters and digits of their names."""

    def __init__(self, documents: Sequence[Document]) -> None:
        # with the name's length, 0 of one that is not in ASCII
        self._called: dict[str, list[tuple[int, int]]] = {}
        every = [(n, name) for n, document in enumerate(documents) for name in names_of(document)]
        for is_ascii in (True, False):  # in ASCII many are read in a tenth of the time
            own = [(n, name) for n, name in every if name.isascii() is is_ascii]
            letters = name_keys([name for _, name in own])
            for key, (n, name) in zip(letters, own, strict=True):
                self._called.setdefault(key, []).append((n, len(name) if is_ascii else 0))

    def documents_named(self, letters: str, longest: int) -> list[DocumentId]:
        """Return the documents with a name of these letters and digits, ascending; one in ASCII has
        no more than `longest` characters.
        """
        called = self._called.get(letters, ())
        return sorted({DocumentId(n) for n, length in called if length <= longest})


def names_of(document: Document) -> tuple[str, ...]:
    """Return the names of a document: its file's without the suffix, its title, its aliases."""
    file = document.path.rpartition("/")[2]
    return (file.rpartition(".")[0] or file, document.title, *document.aliases)
