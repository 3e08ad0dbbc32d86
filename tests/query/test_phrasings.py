"""A query may come with rewordings and with an answer as it might read: they find more, and narrow
and vouch for nothing.
"""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import FakeEmbedder, document, memory_snapshot
from thumbindex.model import Query
from thumbindex.query.pipeline import run_pipeline, start_search
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import ConfidenceSettings, QuerySettings

DOCUMENTS = [
    document(
        "brakes.md", "# Brakes\n\nReplace worn pads before the disc is scratched.", tags=("car",)
    ),
    document(
        "wheels.md", "# Wheels\n\nTurn the nuts crosswise when a tire is changed.", tags=("car",)
    ),
    document("bread.md", "# Bread\n\nKnead the dough and let it rest under a cloth."),
    document("soup.md", "# Soup\n\nSimmer carrots and leeks; keep `get_ready` at hand."),
]


def tools_with(embedder: FakeEmbedder | None = None, **confidence: float) -> Tools:
    return Tools(
        memory_snapshot(DOCUMENTS, embedder),
        QuerySettings(confidence=ConfidenceSettings(**confidence)),
        embedder,
    )


def answered(text: str, embedder: FakeEmbedder | None = None, **given: object) -> list[str]:
    search, _ = run_pipeline(Query(text, **given), tools_with(embedder), count().__next__)  # type: ignore[arg-type]
    return [passage.path for passage in search.passages] if search.answerable else []


@pytest.mark.parametrize("embedder", [None, FakeEmbedder()], ids=["words", "words and meaning"])
def test_a_note_is_found_by_other_words_than_the_querys_own(embedder):
    assert answered("stopping power fades", embedder) == []
    assert (
        answered("stopping power fades", embedder, also=("worn pads", "replace the pads"))[0]
        == "brakes.md"
    )


@pytest.mark.parametrize("embedder", [None, FakeEmbedder()], ids=["words", "words and meaning"])
def test_a_passage_brings_its_note_first_and_alone_vouches_for_nothing(embedder):
    passage = "Replace the worn pads before the disc is scratched."
    search, _ = run_pipeline(
        Query("stopping power fades", passage=passage),
        tools_with(embedder, abstain_below=0.0),
        count().__next__,
    )
    assert (search.passages[0].path, search.confidence_level) == ("brakes.md", "low")


@pytest.mark.parametrize("also", [("???",), ("xyzzy", "plugh frobnicate", "qwertz")])
def test_a_rewording_of_which_no_word_is_known_takes_nothing_from_an_answer(also):
    assert asked("worn pads", also=also).confidence == asked("worn pads").confidence


@pytest.mark.parametrize("rewording", ['"no such phrase"', "tag:nothing pads", "-pads"])
def test_quotes_filters_and_dashes_in_a_rewording_leave_nothing_out(rewording):
    assert answered("worn pads", also=(rewording,))[0] == "brakes.md"


@pytest.mark.parametrize("text", ["tag:car tire", '"the nuts" tire', "tire -dough -soup"])
def test_the_querys_filters_and_quoted_phrases_hold_for_every_phrasing(text):
    found = answered(
        text,
        FakeEmbedder(),
        also=("knead the dough", "simmer carrots and leeks"),
        passage="Knead the dough and let it rest.",
    )
    assert found[0] == "wheels.md"
    assert not {"bread.md", "soup.md"}.intersection(found)


def test_a_note_whose_name_is_the_query_comes_first_whatever_else_was_said():
    assert (
        answered(
            "Bread",
            FakeEmbedder(),
            also=("replace worn pads", "worn pads disc"),
            passage=DOCUMENTS[0].chunks[0].text,
        )[0]
        == "bread.md"
    )


def test_a_rewording_that_says_the_same_is_searched_once():
    named = start_search(
        Query("worn pads", also=("Worn pads!", "brake", "brake", " "), passage="worn  PADS"),
        tools_with(),
    ).other_phrasings
    assert [(each.name, each.text) for each in named] == [("also 2", "brake")]


def test_spelling_is_corrected_in_the_query_and_not_in_what_a_model_said():
    search, _ = run_pipeline(
        Query("crosswize nuts", also=("doughh",)), tools_with(), count().__next__
    )
    assert (search.text, search.other_phrasings[0].text) == ("crosswise nuts", "doughh")


def asked(text: str, **given: object) -> Search:
    return run_pipeline(Query(text, **given), tools_with(FakeEmbedder()), count().__next__)[0]  # type: ignore[arg-type]


TEXTS = st.sampled_from([each.chunks[0].text for each in DOCUMENTS])


@given(TEXTS, st.sampled_from(["paint a fence", "glue", "how tall is the tower"]))
def test_a_passage_from_the_notes_themselves_vouches_for_no_question_that_they_do_not_answer(
    passage, text
):
    assert asked(text, passage=passage).confidence_level == "low"


def test_rewordings_that_the_page_bears_out_make_an_answer_surer():
    others = ("replace worn pads", "worn pads scratch the disc")
    assert (
        asked("stopping power fades", also=others).confidence
        > asked("stopping power fades").confidence
    )
