"""Each form of `tests/corpus/private-forms.md` makes a note private, alone or among other words."""

from __future__ import annotations

import pytest

from thumbindex.corpus.private import is_private_text
from thumbindex.settings import CorpusSettings, PrivateSettings

DEFAULT = CorpusSettings()


def says(text: str, settings: CorpusSettings = DEFAULT) -> bool:
    return is_private_text("note.md", text, settings)


def test_each_form_of_a_private_note_is_private(private_form: str) -> None:
    assert says(f"{private_form}\n\nKeep apples in the cellar.\n")
    assert says(private_form)  # the note ends with its head


def test_a_note_that_only_looks_like_a_private_one_is_open(open_form: str) -> None:
    assert not says(f"{open_form}\n\nKeep apples in the cellar.\n")


@pytest.mark.parametrize("written", ["diary", "#diary", "Diary/", "#Diary"])
def test_a_tag_that_the_settings_name_hides_as_the_one_that_is_always_there(written: str) -> None:
    settings = CorpusSettings(private=PrivateSettings(tags=(written,)))
    assert says("Plums #diary here.\n", settings)
    assert says("Plums #diary/2026 here.\n", settings)
    assert not says("Plums #diaryfarm here.\n", settings)


@pytest.mark.parametrize(
    "text",
    [
        "---private: very secret---\n\nPlums.",
        "Plums `code`#private here.\n",
        '---\n"🔒private": true\n---\n\nPlums.\n',
    ],
)
def test_a_key_behind_the_fence_or_a_sign_and_a_tag_behind_code_make_a_note_private(
    text: str,
) -> None:
    assert says(text)


@pytest.mark.parametrize(
    "text",
    [
        "Plums.\n\nprivate: true is what to write.\n",
        "---\ntitle: Two kinds are private: the small ones and the large ones\nx: [\n---\n",
        "---\ntags: [work]\nI - private\nx: [\n---\n",
        "---\ntitle: x\n---\n---\nSome prose.\n\nprivate: the words of it\n---\n",
    ],
)
def test_a_later_paragraph_prose_in_a_broken_head_below_tags_or_below_a_rule_do_not(
    text: str,
) -> None:
    assert not says(text)
