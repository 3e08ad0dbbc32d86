"""Differences that set near copies apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thumbindex.compare.differences import chunk_difference, is_same_text, text_difference
from thumbindex.model import BlockKind, Chunk

WORDS = st.lists(
    st.sampled_from("the server keeps copies of all files in a safe place for users".split()),
    min_size=3,
    max_size=12,
)
VALUES = st.sampled_from(
    ["30", "1,000", "v2.3.1", "2.4.0", "2026-03-31", "3 May 2024", "5 MB", "$9", "-4", "Monday"]
)
NEGATIONS = st.sampled_from(["not", "never", "without", "nicht", "jamais", "sólo", "нет"])


@given(WORDS, st.integers(0, 12), VALUES, VALUES)
def test_different_values_always_set_texts_apart(
    words: list[str], position: int, value: str, other: str
) -> None:
    first, second = (
        " ".join([*words[:position], text, *words[position:]]) for text in (value, other)
    )
    assert (text_difference(first, second) is None) is (value == other)
    assert text_difference(first, " ".join(words)) is not None


@given(WORDS, st.integers(0, 12), NEGATIONS)
def test_additional_negation_always_sets_texts_apart(
    words: list[str], position: int, negation: str
) -> None:
    denied = " ".join([*words[:position], negation, *words[position:]])
    assert text_difference(denied, " ".join(words)) is not None
    assert text_difference(" ".join(words), denied) is not None


@given(WORDS, st.lists(st.sampled_from("quick brown foxes".split()), min_size=1, max_size=3))
def test_additional_plain_words_do_not_set_texts_apart(words: list[str], more: list[str]) -> None:
    first, second = " ".join(words), " ".join([*words, *more])
    assert (text_difference(first, second), text_difference(second, first)) == (None, None)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Set getUserById here.", "Set getUserByName here."),
        ("In the end Alice decides.", "In the end Bob decides."),
        ("Every user may open it.", "Each user may open it."),
        ("Run `every day`.", "Run `each day`."),
        ("The client → the server.", "The client ← the server."),
        ("Set `a+b` here.", "Set `a-b` here, and `c`."),
        ("```\na + b\n```", "```\na - b\n```\n\nOr so:\n\n```\nc\n```"),
        ("Copy .env to it.", "Copy env to it."),
        ("Das ist schön.", "Das ist schon."),
        ("Keep it here and do not keep that.", "Do not keep it here and keep that."),
        ("The free plan has 5, the team plan 9.", "The team plan has 5, the free plan 9."),
        ("钥匙保存在地下室保险箱里。", "钥匙不保存在地下室保险箱里。"),
        ("Το κλειδί φυλάσσεται εδώ.", "Το κλειδί δεν φυλάσσεται εδώ."),
    ],
)
def test_different_word_name_sign_or_order_sets_texts_apart(first: str, second: str) -> None:
    assert text_difference(first, second) is not None


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ("within 7 days", "within 14 days", "`7 day` vs. `14 day`"),
        ("The Server does support it.", "The Server does not support it.", "nothing vs. `not`"),
        ("Run it with `--force` now.", "Run it now.", "`--force` vs. nothing"),
    ],
)
def test_reason_names_the_differing_tokens(first: str, second: str, reason: str) -> None:
    assert text_difference(first, second) == reason


@pytest.mark.parametrize(("kind", "language"), [(BlockKind.LIST, ""), (BlockKind.CODE, "python")])
def test_other_kinds_and_languages_are_different(kind: BlockKind, language: str) -> None:
    prose, other = (
        Chunk(0, 0, BlockKind.PROSE, ("T",), 1, 1, "same"),
        Chunk(0, 0, kind, ("T",), 1, 1, "same", language=language),
    )
    assert (chunk_difference(prose, other) is None, chunk_difference(prose, prose)) == (False, None)


def test_emphasis_by_underscores_equals_emphasis_by_asterisks() -> None:
    first = "_Boxes_ store data on the heap (_not the\nstack_), see `__init__` and MAX_SIZE."
    assert is_same_text(
        first,
        first.replace("_B", "*B").replace("s_ ", "s* ").replace("(_", "(*").replace("k_)", "k*)"),
    )
    assert text_difference("Call `_run` first.", "Call `run` first.")
