"""A corpus under other names: whether the names are gone everywhere but in what a model says, and
all else is as it was.
"""

import json
import re
from pathlib import Path

import pytest

from study.rename_corpus import Renaming, find_names, rename_corpus

NOTES = {
    "Quartz Sync/Set up.md": (
        "# Set up Quartz Sync\n\nOpen QUARTZ, press quartz-sync. See [[Live Preview]] and "
        "`quartzUrl`. A desync is no name.\n"
    ),
    "Quartz Sync/plugins.md": (
        "# Plugins\n\nNo Quartzes: two Syncs. [Preview](<../Live%20Preview.md>), `live_preview`, "
        "LivePreview, live music.\n"
    ),
    "Live Preview.md": "# Live Preview\n\nShows [the set-up](<Quartz Sync/Set up.md>).\n",
}
NAMES = ("Quartz", "Sync", "Live Preview")
LINE = {
    "id": "1",
    "query": "set up quartz sync",
    "kind": "question",
    "relevant": [{"path": "Quartz Sync/Set up.md", "heading": "Set up Quartz Sync", "grade": 2}],
    "also": ["connect Quartz"],
    "passage": "Quartz Sync connects.",
}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    for path, text in NOTES.items():
        (tmp_path / "corpus" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "corpus" / path).write_text(text, encoding="utf-8")
    (tmp_path / "corpus" / "picture.png").write_bytes(b"\x89PNG Sync")
    (tmp_path / "corpus.client.jsonl").write_text(json.dumps(LINE) + "\n", encoding="utf-8")
    return tmp_path / "corpus"


def test_names_are_replaced_in_texts_paths_and_labels_and_not_in_rewordings(
    corpus: Path, tmp_path: Path
) -> None:
    words = rename_corpus(corpus, tmp_path / "out", [tmp_path / "corpus.client.jsonl"], NAMES).words
    quartz, sync, live, preview = (words[each] for each in ("quartz", "sync", "live", "preview"))
    folder = tmp_path / "out" / "notes" / f"{quartz.capitalize()} {sync.capitalize()}"
    assert folder.joinpath("Set up.md").read_text(encoding="utf-8") == (
        f"# Set up {quartz.capitalize()} {sync.capitalize()}\n\n"
        f"Open {quartz.upper()}, press {quartz}-{sync}."
        f" See [[{live.capitalize()} {preview.capitalize()}]] and `{quartz}Url`. A desync is no "
        "name.\n"
    )
    assert folder.joinpath("plugins.md").read_text(encoding="utf-8") == (
        f"# Plugins\n\nNo Quartzes: two {sync.capitalize()}s. "
        f"[Preview](<../{live.capitalize()}%20{preview.capitalize()}.md>),"
        f" `{live}_{preview}`, {live.capitalize()}{preview.capitalize()}, live music.\n"
    )
    (row,) = map(
        json.loads,
        (tmp_path / "out" / "corpus.client.jsonl").read_text(encoding="utf-8").splitlines(),
    )
    assert (row["query"], row["also"], row["passage"]) == (
        f"set up {quartz} {sync}",
        LINE["also"],
        LINE["passage"],
    )
    assert (tmp_path / "out" / "notes" / row["relevant"][0]["path"]).is_file()
    assert row["relevant"][0]["heading"] == f"Set up {quartz.capitalize()} {sync.capitalize()}"
    assert (tmp_path / "out" / "notes" / "picture.png").read_bytes() == b"\x89PNG Sync"


def test_the_same_seed_gives_the_same_words_which_can_be_spoken_and_are_new() -> None:
    assert Renaming(NAMES, 7).words == Renaming(NAMES[::-1], 7).words
    assert Renaming(NAMES, 7).words != Renaming(NAMES, 8).words
    words = Renaming(NAMES).words.values()
    assert all(re.fullmatch("([bdfgklmnprstvz][aeiou])+[bdfgklmnprstvz]", each) for each in words)
    assert not set(words) & set(Renaming(NAMES, taken=words).words.values())


def test_the_corpus_is_left_alone(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="not there yet, outside of"):
        rename_corpus(corpus, corpus / "out", names=NAMES)
    rename_corpus(corpus, tmp_path / "out", names=NAMES)
    assert {path: (corpus / path).read_text(encoding="utf-8") for path in NOTES} == NOTES


def test_names_are_words_that_stand_with_a_capital_more_often_than_without() -> None:
    assert find_names(
        [
            "the best of Quartz is here. " * 30
            + "see the Vault and a vault. " * 30
            + "it is in March too. " * 30
        ]
    ) == ["Quartz"]
