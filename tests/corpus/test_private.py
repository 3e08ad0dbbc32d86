"""Each form of `tests/corpus/private-forms.md` makes a note private, alone or among other words."""

from __future__ import annotations

import pytest

from thumbindex.corpus.private import is_private_text
from thumbindex.settings import CorpusSettings, PrivateSettings

DEFAULT = CorpusSettings()


def is_private(text: str, settings: CorpusSettings = DEFAULT) -> bool:
    return is_private_text("note.md", text, settings)


def test_every_private_form_is_private(private_form: str) -> None:
    assert is_private(f"{private_form}\n\nKeep apples in the cellar.\n")
    assert is_private(private_form)  # the note ends with its head


def test_every_open_form_is_open(open_form: str) -> None:
    assert not is_private(f"{open_form}\n\nKeep apples in the cellar.\n")


@pytest.mark.parametrize("tag", ["diary", "#diary", "Diary/", "#Diary"])
def test_configured_tag_makes_a_note_private(tag: str) -> None:
    settings = CorpusSettings(private=PrivateSettings(tags=(tag,)))
    assert is_private("Plums #diary here.\n", settings)
    assert is_private("Plums #diary/2026 here.\n", settings)
    assert not is_private("Plums #diaryfarm here.\n", settings)


@pytest.mark.parametrize(
    "text",
    [
        "---private: very secret---\n\nPlums.",
        "Plums `code`#private here.\n",
        '---\n"🔒private": true\n---\n\nPlums.\n',
    ],
)
def test_key_or_tag_behind_other_characters_makes_a_note_private(
    text: str,
) -> None:
    assert is_private(text)


@pytest.mark.parametrize(
    "text",
    [
        "Plums.\n\nprivate: true is what to write.\n",
        "---\ntitle: Two kinds are private: the small ones and the large ones\nx: [\n---\n",
        "---\ntags: [work]\nI - private\nx: [\n---\n",
        "---\ntitle: x\n---\n---\nSome prose.\n\nprivate: the words of it\n---\n",
    ],
)
def test_mention_in_prose_leaves_a_note_open(
    text: str,
) -> None:
    assert not is_private(text)
