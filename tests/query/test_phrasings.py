"""Rewordings and a hypothetical answer find more, but exclude nothing and are no evidence."""

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


def answer_paths(text: str, embedder: FakeEmbedder | None = None, **arguments: object) -> list[str]:
    search, _ = run_pipeline(Query(text, **arguments), tools_with(embedder), count().__next__)  # type: ignore[arg-type]
    return [passage.path for passage in search.passages] if search.found else []


@pytest.mark.parametrize("embedder", [None, FakeEmbedder()], ids=["words", "words and meaning"])
def test_rewording_finds_note(embedder):
    assert answer_paths("stopping power fades", embedder) == []
    assert (
        answer_paths("stopping power fades", embedder, also=("worn pads", "replace the pads"))[0]
        == "brakes.md"
    )


@pytest.mark.parametrize("embedder", [None, FakeEmbedder()], ids=["words", "words and meaning"])
def test_hypothetical_passage_finds_note_with_low_confidence(embedder):
    passage = "Replace the worn pads before the disc is scratched."
    search, _ = run_pipeline(
        Query("stopping power fades", passage=passage),
        tools_with(embedder, abstain_below=0.0),
        count().__next__,
    )
    assert (search.passages[0].path, search.confidence_level) == ("brakes.md", "low")


@pytest.mark.parametrize("also", [("???",), ("xyzzy", "plugh frobnicate", "qwertz")])
def test_unknown_rewording_does_not_change_confidence(also):
    assert search_for("worn pads", also=also).confidence == search_for("worn pads").confidence


@pytest.mark.parametrize("rewording", ['"no such phrase"', "tag:nothing pads", "-pads"])
def test_operators_in_rewording_are_plain_words(rewording):
    assert answer_paths("worn pads", also=(rewording,))[0] == "brakes.md"


@pytest.mark.parametrize("text", ["tag:car tire", '"the nuts" tire', "tire -dough -soup"])
def test_filters_of_query_apply_to_every_phrasing(text):
    paths = answer_paths(
        text,
        FakeEmbedder(),
        also=("knead the dough", "simmer carrots and leeks"),
        passage="Knead the dough and let it rest.",
    )
    assert paths[0] == "wheels.md"
    assert not {"bread.md", "soup.md"}.intersection(paths)


def test_name_match_ranks_before_other_phrasings():
    assert (
        answer_paths(
            "Bread",
            FakeEmbedder(),
            also=("replace worn pads", "worn pads disc"),
            passage=DOCUMENTS[0].chunks[0].text,
        )[0]
        == "bread.md"
    )


def test_equal_rewordings_are_searched_once():
    phrasings = start_search(
        Query("worn pads", also=("Worn pads!", "brake", "brake", " "), passage="worn  PADS"),
        tools_with(),
    ).other_phrasings
    assert [(phrasing.name, phrasing.text) for phrasing in phrasings] == [("also 2", "brake")]


def test_spelling_of_rewordings_is_not_corrected():
    search, _ = run_pipeline(
        Query("crosswize nuts", also=("doughh",)), tools_with(), count().__next__
    )
    assert (search.text, search.other_phrasings[0].text) == ("crosswise nuts", "doughh")


def search_for(text: str, **arguments: object) -> Search:
    return run_pipeline(Query(text, **arguments), tools_with(FakeEmbedder()), count().__next__)[0]  # type: ignore[arg-type]


TEXTS = st.sampled_from([entry.chunks[0].text for entry in DOCUMENTS])


@given(TEXTS, st.sampled_from(["paint a fence", "glue", "how tall is the tower"]))
def test_hypothetical_passage_from_notes_does_not_raise_confidence(passage, text):
    assert search_for(text, passage=passage).confidence_level == "low"


def test_grounded_rewordings_raise_confidence():
    others = ("replace worn pads", "worn pads scratch the disc")
    assert (
        search_for("stopping power fades", also=others).confidence
        > search_for("stopping power fades").confidence
    )
