"""A page and its translation are told by outline, numbers and code: a model of one language sees no
likeness.
"""

from fakes import document, memory_snapshot
from thumbindex.model import DocumentId
from thumbindex.query.versions import translations

ENGLISH = """# Install the server

This page tells you how to install the server on your machine.

## Requirements

You need Python 3.11 and 200 MB of free space, and the server runs on every system.

## Begin

Download the package and run `pip install thing-server` on the machine. \
It will be ready after 30 seconds.
"""

GERMAN = """# Den Server installieren

Diese Seite erklärt, wie man den Server auf dem eigenen Rechner installiert.

## Voraussetzungen

Sie brauchen Python 3.11 und 200 MB freien Platz, und der Server läuft auf jedem System.

## Beginnen

Laden Sie das Paket herunter und führen Sie `pip install thing-server` auf dem Rechner aus. \
Er ist nach 30 Sekunden bereit.
"""


def same_places(english: str, german: str) -> list[tuple[int, int]]:
    snapshot = memory_snapshot([document("de/x.md", german), document("en/x.md", english)])
    found = translations(DocumentId(0), DocumentId(1), snapshot.catalog)
    lines = snapshot.catalog.chunks(sorted({n for pair in found for n in pair}))
    return sorted((lines[a].start_line, lines[b].start_line) for a, b in found)


def test_chunks_in_the_same_place_say_the_same() -> None:
    assert same_places(ENGLISH, GERMAN) == [(3, 3), (7, 7), (11, 11)]
