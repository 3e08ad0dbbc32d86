"""Documents by what they are called: their files, titles and aliases, whatever the case, accents
and signs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thumbindex.model import Document, DocumentId
from thumbindex.text import bare_name, bare_names


class DocumentNames:
    """What documents are called: letters are compared with the names of about their length.

    Those in ASCII are folded when letters of their length come: all of a hundred thousand would
    take a snapshot's first query half a second.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents
        # which of its document's names each is, and of which document: by length, below zero that
        # of the letters, where these are not ASCII
        self._called: dict[int, list[int]] = {}
        # by length, which documents the letters call
        self._folded: dict[int, dict[str, list[int]]] = {}
        called = [
            (at * len(documents) + number, name)
            for number, document in enumerate(documents)
            for at, name in enumerate(names_of(document))
        ]
        others = [(key, name) for key, name in called if not name.isascii()]
        bare = bare_names([name for _, name in others])
        lengths = {key: -1 - len(letters) for (key, _), letters in zip(others, bare, strict=True)}
        for key, name in called:
            self._called.setdefault(lengths.get(key) or len(name), []).append(key)

    def named(self, letters: str, longest: int) -> list[DocumentId]:
        """Return the documents with a name of these letters and digits, ascending; one in ASCII has
        no more than `longest` characters.
        """
        return sorted({DocumentId(n) for n in self._of(letters, longest)})

    def _of(self, letters: str, longest: int) -> Iterator[int]:
        for length in (
            each
            for each in (-1 - len(letters), *range(len(letters), longest + 1))
            if each in self._called
        ):
            if length not in self._folded:
                self._folded[length] = self._fold(length)
            yield from self._folded[length].get(letters, ())

    def _fold(self, length: int) -> dict[str, list[int]]:
        """Return which documents the names of a length call, by the letters of these."""
        parts = [divmod(n, len(self._documents)) for n in self._called[length]]
        found: dict[str, list[int]] = {}
        for letters, (_, number) in zip(
            bare_names([names_of(self._documents[number])[at] for at, number in parts]),
            parts,
            strict=True,
        ):
            found.setdefault(letters, []).append(number)
        return found


def names_of(document: Document) -> tuple[str, ...]:
    """Return the names of a document: its file's without the suffix, its title, its aliases."""
    file = document.path.rpartition("/")[2]
    return (file.rpartition(".")[0] or file, document.title, *document.aliases)


def name_rows(document: Document) -> Iterator[tuple[str, int]]:
    """Return the letters of each of a document's names, and how long the name is: 0 where it is not
    in ASCII, and of any length.
    """
    return ((bare_name(name), len(name) if name.isascii() else 0) for name in names_of(document))
