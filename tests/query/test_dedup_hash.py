"""The stage dedup_hash merges equal texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import document, memory_snapshot
from thumbindex.model import Query
from thumbindex.query.copies import dedup_hash, exact_copies
from thumbindex.query.stage import Search, Tools

RULES = {  # rule: texts, scores, positions of the survivors
    "trailing_space": (["text", "text "], [1.0, 1.0], [0, 1]),
    "white_space_inside": (["a b", "a  b", "a\tb"], [1.0] * 3, [0, 1, 2]),
    "final_line_end": (["text", "text\n"], [1.0, 1.0], [0, 1]),
    "byte_order_mark": (["text", "\ufefftext"], [1.0, 1.0], [0, 1]),
    "nfc_and_nfd": (["é", "e\u0301"], [1.0, 1.0], [0, 1]),
    "crlf": (["a\nb", "a\r\nb"], [1.0, 1.0], [0, 1]),
    "case": (["Text", "text"], [1.0, 1.0], [0, 1]),
    "highest_score": (["x", "x", "x"], [0.2, 0.9, 0.5], [1]),
    "equal_scores_keep_the_earlier": (["x", "y", "x"], [0.5, 0.5, 0.5], [0, 1]),
    "order_of_survivors_0_3_7": (list("abbBccCD"), [9, 1, 2, 1, 1, 2, 1, 1], [0, 2, 3, 5, 6, 7]),
    "one": (["x"], [0.0], [0]),
    "empty": ([], [], []),
    "empty_texts_are_equal": (["", ""], [0.5, 0.5], [0]),
}


@pytest.mark.parametrize("rule", RULES)
def test_exact_copies_follow_rule(rule: str) -> None:
    texts, scores, survivors = RULES[rule]
    copies = exact_copies(texts, scores)
    assert [at for at in range(len(texts)) if at not in copies] == survivors
    assert all(texts[at] == texts[of] for at, of in copies.items())


def test_dedup_hash_ignores_metadata_and_keeps_the_survivors(
    candidates,
) -> None:
    snapshot = memory_snapshot(
        [document("a.md", "# A\n\nsame", tags=("x",)), document("b.md", "# B\n\nsame")]
    )
    merged = dedup_hash(
        Search(Query("x"), "x", candidates=candidates(snapshot, 0.1, 0.9)), Tools(snapshot)
    )
    assert [
        (candidate.id, candidate.chunk.heading_path, candidate.also_in)
        for candidate in merged.candidates
    ] == [(1, ("B",), (0,))]


@given(st.lists(st.text(max_size=4), max_size=8), st.randoms(use_true_random=False))
def test_exact_copies_have_equal_bytes(texts: list[str], random) -> None:
    scores = [random.random() for _ in texts]
    copies = exact_copies(texts, scores)
    assert len(texts) - len(copies) == len(
        {text.encode("utf-8", "surrogatepass") for text in texts}
    )


def test_equal_texts_stay_apart_if_owner_decides(ask, with_duplicates) -> None:
    snapshot = memory_snapshot(
        [
            document("a.md", "# A\n\nApples grow on trees."),
            document("b.md", "# B\n\nApples grow on trees."),
        ]
    )
    alone = "dedup_versions dedup_known dedup_ngram dedup_semantic"
    assert len(ask(snapshot, "apples trees", off=alone)[0].candidates) == 1
    assert (
        len(
            ask(with_duplicates(snapshot, verdicts={(0, 1): "apart"}), "apples trees", off=alone)[
                0
            ].candidates
        )
        == 2
    )
