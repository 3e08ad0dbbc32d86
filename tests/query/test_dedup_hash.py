"""The exact stage by the rules that it conforms to (spec/dedup.md, section 1)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thumbindex.model import Candidate, Query
from thumbindex.query.copies import dedup_hash, exact_copies
from thumbindex.query.stage import Search, Tools
from thumbindex.testing import document, memory_snapshot

groups = st.lists(
    st.tuples(st.sampled_from(["a", "a ", "A", ""]), st.sampled_from([0.1, 0.5, 0.9]))
)

RULES = {  # rule: texts, scores, positions of the survivors
    "trailing_space": (["text", "text "], [1.0, 1.0], [0, 1]),
    "leading_space": (["text", " text"], [1.0, 1.0], [0, 1]),
    "white_space_inside": (["a b", "a  b", "a\tb"], [1.0] * 3, [0, 1, 2]),
    "final_line_end": (["text", "text\n"], [1.0, 1.0], [0, 1]),
    "byte_order_mark": (["text", "\ufefftext"], [1.0, 1.0], [0, 1]),
    "nfc_and_nfd": (["é", "e\u0301"], [1.0, 1.0], [0, 1]),
    "compatibility_forms": (["ﬁle", "file"], [1.0, 1.0], [0, 1]),
    "crlf": (["a\nb", "a\r\nb"], [1.0, 1.0], [0, 1]),
    "case": (["Text", "text"], [1.0, 1.0], [0, 1]),
    "no_break_space": (["a b", "a\u00a0b"], [1.0, 1.0], [0, 1]),
    "highest_score": (["x", "x", "x"], [0.2, 0.9, 0.5], [1]),
    "equal_scores_keep_the_earlier": (["x", "y", "x"], [0.5, 0.5, 0.5], [0, 1]),
    "equal_highest_scores_keep_the_earlier_of_them": (["x", "x", "x"], [0.2, 0.9, 0.9], [1]),
    "order_of_survivors_0_3_7": (list("abbBccCD"), [9, 1, 2, 1, 1, 2, 1, 1], [0, 2, 3, 5, 6, 7]),
    "survivors_at_0_3_7": (list("aaabbbbc"), [0.9, 0.1, 0.1, 0.8, 0.1, 0.1, 0.1, 0.7], [0, 3, 7]),
    "all_equal": (["x"] * 5, [0.5] * 5, [0]),
    "none_equal": (list("abc"), [0.1, 0.2, 0.3], [0, 1, 2]),
    "one": (["x"], [0.0], [0]),
    "empty": ([], [], []),
    "empty_texts_are_equal": (["", ""], [0.5, 0.5], [0]),
    "negative_scores": (["x", "x"], [-2.0, -1.0], [1]),
}


@pytest.mark.parametrize("rule", RULES)
def test_the_exact_stage_conforms_to_rule(rule: str) -> None:
    texts, scores, survivors = RULES[rule]
    copies = exact_copies(texts, scores)
    assert [at for at in range(len(texts)) if at not in copies] == survivors
    assert all(texts[at] == texts[of] for at, of in copies.items())


def test_the_exact_stage_conforms_to_rule_disabled(ask) -> None:
    notes = [document("a.md", "# A\n\nsame words"), document("b.md", "# B\n\nsame words")]
    off = "variants dedup_known dedup_ngram dedup_semantic dedup_hash"
    search, trace = ask(notes, "same words", off=off)
    assert (len(search.candidates), "dedup_hash" in [step.stage for step in trace]) == (2, False)


def test_the_exact_stage_conforms_to_rule_metadata_does_not_count_and_the_survivor_keeps_its_own(
    candidates,
) -> None:
    snapshot = memory_snapshot(
        [document("a.md", "# A\n\nsame", tags=("x",)), document("b.md", "# B\n\nsame")]
    )
    merged = dedup_hash(
        Search(Query("x"), "x", candidates=candidates(snapshot, 0.1, 0.9)), Tools(snapshot)
    )
    assert [(each.id, each.chunk.heading_path, each.also_in) for each in merged.candidates] == [
        (1, ("B",), (0,))
    ]


def test_the_exact_stage_conforms_to_rule_empty_input_empty_output() -> None:
    assert dedup_hash(Search(Query("x"), "x"), Tools(memory_snapshot([]))).candidates == ()


@given(groups)
def test_one_of_each_text_survives_in_order(group: list[tuple[str, float]]) -> None:
    texts, scores = [text for text, _ in group], [score for _, score in group]
    kept = [at for at in range(len(group)) if at not in exact_copies(texts, scores)]
    assert sorted(texts[at] for at in kept) == sorted(set(texts))
    assert [scores[at] for at in kept] == [
        max(score for text, score in group if text == texts[at]) for at in kept
    ]
    assert exact_copies([texts[at] for at in kept], [scores[at] for at in kept]) == {}


@given(st.lists(st.text(max_size=4), max_size=8), st.randoms(use_true_random=False))
def test_identity_is_the_bytes_and_nothing_else(texts: list[str], random) -> None:
    scores = [random.random() for _ in texts]
    copies = exact_copies(texts, scores)
    assert len(texts) - len(copies) == len(
        {text.encode("utf-8", "surrogatepass") for text in texts}
    )


@given(groups)
def test_survivors_are_returned_unchanged_but_for_what_they_stand_for(
    group: list[tuple[str, float]],
) -> None:
    snapshot = memory_snapshot([document(f"{at}.md", "word") for at in range(len(group))])
    chunks = snapshot.catalog.chunks(range(len(group)))
    given_ = tuple(
        Candidate(at, at, replace(chunks[at], text=text), score)
        for at, (text, score) in enumerate(group)
    )
    after = dedup_hash(Search(Query("x"), "x", candidates=given_), Tools(snapshot)).candidates
    assert [replace(each, also_in=(), cluster_size=1) for each in after] == [
        given_[each.id] for each in after
    ]
    assert sum(each.cluster_size for each in after) == len(group)


def test_equal_texts_that_their_owner_keeps_apart_are_two(ask, knowing) -> None:
    snapshot = memory_snapshot(
        [
            document("a.md", "# A\n\nApples grow on trees."),
            document("b.md", "# B\n\nApples grow on trees."),
        ]
    )
    alone = "variants dedup_known dedup_ngram dedup_semantic"
    assert len(ask(snapshot, "apples trees", off=alone)[0].candidates) == 1
    assert (
        len(
            ask(knowing(snapshot, verdicts={(0, 1): "apart"}), "apples trees", off=alone)[
                0
            ].candidates
        )
        == 2
    )
