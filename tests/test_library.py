"""`Library` from files to answers, with fake models and real indexes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import folders
from dump import dump
from fakes import FakeEmbedder
from thumbindex.config import load_config
from thumbindex.encode.models import BUNDLED_FOLDER
from thumbindex.errors import (
    IndexDamagedError,
    IndexMissingError,
    UnknownFolderError,
    UnknownPathError,
    UsageError,
)
from thumbindex.library import Library
from thumbindex.model import Progress

NOTES = {
    "fruit/apples.md": (
        "# Apples\n\nApples grow on trees. See [[Pears]].\n\n## Storing\n\n"
        "Keep apples in a cool cellar.\n"
    ),
    "fruit/Pears.md": "---\naliases: [Williams]\ntags: [fruit/soft]\n---\n\n"
    "Text before the first heading about juice.\n\n"
    "# Pears\n\nPears ripen off the tree.\n",
    "code.md": (
        "# Code\n\nCall `getUserById` with an id.\n\n```python\ndef parse_json_data(raw): ...\n"
        "```\n"
    ),
}


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    root = tmp_path / "vault"
    for path, text in NOTES.items():
        write(root / path, text)
    return root


@pytest.fixture
def library(vault: Path, tmp_path: Path) -> Iterator[Library]:
    # one thread, as in a server's child
    with open_library(vault, tmp_path / "index", "encode.embed.workers=1") as library:
        yield library


@pytest.fixture
def batches_of_eight(vault: Path, tmp_path: Path) -> Iterator[Library]:
    """A library that reports progress after every eight vectors."""
    config = load_config(user_file=vault / "none")
    embed = replace(config.encode.embed, batch=8)
    config = replace(config, encode=replace(config.encode, embed=embed))
    with Library.open(
        [vault], index=tmp_path / "index", config=config, embedder=FakeEmbedder()
    ) as library:
        yield library


def write(path: Path, text: str) -> None:
    """Write a file with an old time, so that indexing does not reread it for its recent time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(10**18 + len(text), 10**18 + len(text)))


def open_library(root: Path, index: Path, *overrides: str) -> Library:
    return folders.open_library(root, index=index, overrides=overrides)


def paths(library: Library, text: str, **filters: object) -> list[str]:
    return [passage.path for passage in library.query(text, **filters).passages]  # type: ignore[arg-type]


# ------------------------------------------------------------------ indexing


def test_edit_embeds_only_the_changed_text(library, vault):
    library.index()
    write(vault / "fruit/apples.md", NOTES["fruit/apples.md"] + "\n## Eating\n\nEat one a day.\n")
    assert library.index().embedded == 1


def test_abbreviation_expands_only_while_a_note_defines_it(library, vault):
    write(vault / "sso.md", "# Words\n\nWe mean single sign-on (SSO).\n")
    write(vault / "teams.md", "# Teams\n\nSingle sign-on is for teams.\n")
    library.index()
    with_it = (paths(library, "SSO")[:2], library.query("SSO").corrected)
    write(vault / "sso.md", "# Words\n\nWe mean the SSO of old.\n")
    library.index()
    assert with_it == (["sso.md", "teams.md"], "SSO (also: single sign on)")
    assert ("teams.md" in paths(library, "SSO"), library.query("SSO").corrected) == (False, None)


def test_corrected_word_is_written_as_in_the_notes(library, vault):
    write(vault / "soup.md", "# Suppe\n\nKürbissuppe mit Ingwer.\n")
    library.index()
    assert library.query("kürbisuppe mit Ingwer").corrected == "kürbissuppe mit Ingwer"


def test_moving_a_note_embeds_nothing(library, vault):
    library.index()
    (vault / "fruit/apples.md").rename(vault / "moved.md")
    report = library.index()
    assert (report.added, report.removed, report.embedded) == (1, 1, 0)


def test_rebuild_embeds_nothing_and_gives_the_same_index(library):
    library.index()
    before = dump(library)
    report = library.index(rebuild=True)
    assert (report.embedded, dump(library)) == (0, before)


def test_words_are_searchable_without_vectors(library):
    library.index(complete=False)
    answer = library.query("cellar")
    assert (answer.index.vectors, answer.index.pending, answer.passages[0].path) == (
        0,
        answer.index.chunks,
        "fruit/apples.md",
    )


def test_bad_files_are_reported_and_skipped(library, vault):
    (vault / "latin.md").write_bytes(b"caf\xe9 au lait")
    (vault / "nul.md").write_bytes(b"zero\0byte")
    (vault / "yaml.md").write_text(
        "---\ntags: [unclosed\n---\n\nBody stays searchable: zeppelin.\n", encoding="utf-8"
    )
    report = library.index()
    assert (sorted({p.path for p in report.skipped}), paths(library, "zeppelin")[0]) == (
        ["latin.md", "nul.md", "yaml.md"],
        "yaml.md",
    )


def test_indexing_and_querying_never_write_to_notes(library, vault):
    before = {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in vault.rglob("*")
        if path.is_file()
    }
    library.index()
    library.query("apples")
    assert {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in vault.rglob("*")
        if path.is_file()
    } == before


def test_damaged_store_is_rebuilt_without_embedding_again(vault, tmp_path):
    with open_library(vault, tmp_path / "index") as library:
        library.index()
        store = library.opened[0].index_paths.of_build().store
    store.write_bytes(b"damaged" * 1000)
    with open_library(vault, tmp_path / "index") as library:
        with pytest.raises(IndexDamagedError, match="rebuild it from the notes"):
            library.query("apples")
        report = library.index()
        assert (
            report.added,
            report.embedded,
            "from the notes" in report.repaired[0],
        ) == (
            3,
            0,
            True,
        )
        assert (library.status()[0].skipped, store.exists()) == ((), False)


# ------------------------------------------------------------------ random edits

TEXTS = st.sampled_from(
    [
        "",
        "apples",
        "# A\n\napples [[b]]",
        "# B\n\npears\n\n## Sub\n\nmore [[a]] and [[c|see]]",
        "---\naliases: [c]\n---\nplums",
        "x" * 1200,
    ]
)
ACTIONS = st.sampled_from(["write", "delete", "rename"])
EDITS = st.lists(
    st.tuples(ACTIONS, st.sampled_from(["a.md", "b.md", "d/c.md"]), TEXTS), min_size=1, max_size=6
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(EDITS, min_size=1, max_size=3))
def test_incremental_index_equals_a_fresh_build_after_any_edits(batches):
    with tempfile.TemporaryDirectory() as folder:
        root, clock = Path(folder, "vault"), 10**18
        root.mkdir()
        (root / "not a note.txt").touch()  # indexing refuses an empty folder
        with open_library(root, Path(folder, "one")) as library:
            for batch in batches:
                for action, name, text in batch:
                    clock += 10**10
                    edit(root, action, name, text, clock)
                library.index()
            incremental = dump(library)
        with open_library(root, Path(folder, "two")) as fresh:
            fresh.index()
            assert dump(fresh) == incremental


def edit(root: Path, action: str, name: str, text: str, clock: int) -> None:
    path = root / name
    if action == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(clock, clock))
    elif path.exists() and action == "delete":
        path.unlink()
    elif path.exists():
        path.rename(root / f"{path.stem}-renamed.md")


# ------------------------------------------------------------------ answering


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("juice", "fruit/Pears.md"),  # text before the first heading
        ("Williams", "fruit/Pears.md"),  # an alias
        ("parse json", "code.md"),  # parts of an identifier
        ("getUserById", "code.md"),
    ],
)
def test_expected_note_is_ranked_first(library, query, path):
    library.index()
    assert paths(library, query)[0] == path


def test_code_match_points_to_its_own_chunk(library, vault):
    prose = "Prose that fills a chunk of its own. " * 12
    write(
        vault / "code.md",
        f"# Code\n\n{prose}\n\n```python\n{'one = 1  # padding' * 12}\n"
        "def parse_json_data(raw): ...\n```\n",
    )
    library.index()
    first = library.query("parse_json_data").passages[0]
    assert (first.match_start_line, first.match_end_line) == (5, 8)


def test_two_indexes_of_the_same_notes_give_the_same_answer(library, vault, tmp_path):
    library.index()
    with open_library(vault, tmp_path / "other") as other:
        other.index()
        assert (
            library.query("apples and pears").passages == other.query("apples and pears").passages
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"text": " "}, "empty"),
        ({"text": "x" * 10_001}, "10,000"),
        ({"limit": 0}, "from 1 to 100"),
        ({"path": ["!code.md"]}, "!code.md"),
        ({"path": ["/"]}, "matches no document"),
    ],
)
def test_invalid_query_raises_usage_error(library, arguments, message):
    with pytest.raises(UsageError, match=message):
        library.query(**{"text": "apples", **arguments})


def test_query_searches_all_folders_or_the_named_one(vault, tmp_path):
    work_folder = tmp_path / "work"
    write(work_folder / "apples.md", "# Apples at work\n\nThe office has apples.\n")
    with folders.open_library(vault, work_folder) as library:
        library.index()
        both = {passage.folder for passage in library.query("apples").passages}
        from_work = {
            passage.folder for passage in library.query("apples", folder=["work"]).passages
        }
    assert (both, from_work) == ({"vault", "work"}, {"work"})


# ------------------------------------------------------------------ reading


def test_read_includes_subheadings_and_clips_ranges_at_the_last_line(library, vault):
    write(vault / "a#2.md", "# A\n\n## One\n\n### Below\n\n<!-- x -->\n\n## Two\n")
    library.index()
    excerpts = [
        library.read("a#2.md", **how)
        for how in ({}, {"heading": "## One"}, {"lines": (7, 99)}, {"lines": (8, 9)})
    ]
    assert [(e.start_line, e.end_line, len(e.flags)) for e in excerpts] == [
        (1, 9, 1),
        (3, 8, 1),
        (7, 9, 1),
        (8, 9, 0),
    ]


def test_reading_a_skipped_note_gives_the_reason_unless_it_is_private(vault, tmp_path):
    write(vault / "huge.md", "Words and more of them. " * 20)
    with open_library(vault, tmp_path / "index", "corpus.max_file_bytes=400") as library:
        library.index()
        for name in ("huge.md", "huge", "## 1. huge.md#Words (lines 3-4)"):
            with pytest.raises(
                UnknownPathError,
                match=(
                    r"^huge\.md is not in the index: 480 bytes, "
                    r"more than corpus\.max_file_bytes \(400\): not indexed\."
                ),
            ):
                library.read(name)
        write(vault / "huge.md", "---\nprivate: true\n---\n")
        with pytest.raises(UnknownPathError, match=r"^No note 'huge\.md' in the index\."):
            library.read("huge.md")


def test_read_accepts_names_unless_the_path_must_be_exact(library):
    library.index()
    assert library.read("pears").path == "fruit/Pears.md"
    for path in ("pears", "fruit/Pears.md (line 1)", "fruit/Pears.md:1"):
        with pytest.raises(UnknownPathError, match=r"fruit/Pears\.md"):
            library.read(path, exact=True)


def test_read_accepts_names_as_citations_print_them(vault, tmp_path):
    (vault / "line\nbreak.md").write_text(
        "# Breaks\n\n## Dam\n\nThe dam broke.\n", encoding="utf-8"
    )
    with folders.open_library(vault) as library:
        library.index()
        assert library.read("line break.md#Dam").start_line == 3
        assert library.read("line\nbreak.md").path == library.read("line break.md").path
        with pytest.raises(UnknownPathError, match=r"Nearest: line break\.md"):
            library.read("lin break.md")


@pytest.mark.slow
def test_index_keeps_its_model_if_none_is_configured(vault, tmp_path):
    def index_with(*overrides: str) -> str:
        config = load_config(
            user_file=tmp_path / "none",
            overrides=overrides,
        )
        with Library.open([vault], index=tmp_path / "index", config=config) as library:
            library.index()
            return library.status()[0].index.model

    model = shutil.copytree(BUNDLED_FOLDER, tmp_path / "mine")
    assert index_with(f"encode.embed.model={model}") == str(model)
    write(vault / "new.md", "# New\n\nA note that wants a vector.\n")
    assert index_with() == str(model)


def long_note(number: int) -> str:
    return "".join(f"# Part {n}\n\n{f'words of {number} and {n} ' * 5}\n\n" for n in range(20))


def test_forget_during_a_write_deletes_the_index_until_the_next_run(
    batches_of_eight, vault, tmp_path
):
    for number in range(2):
        write(vault / f"long {number}.md", long_note(number))
    forgotten = []

    def forget(progress: Progress) -> None:
        if progress.phase == "vectors" and 0 < progress.done < progress.total and not forgotten:
            with open_library(vault, tmp_path / "index") as other:
                forgotten.append(other.forget())

    with pytest.raises(IndexMissingError, match="Run `thumbindex index` again"):
        batches_of_eight.index(progress=forget)
    assert not batches_of_eight.indexed
    batches_of_eight.index()
    with open_library(vault, tmp_path / "fresh") as fresh:
        fresh.index()
        batches_of_eight.status(), fresh.status()  # opens the current index
        assert dump(batches_of_eight) == dump(fresh)


def test_rebuild_during_embedding_keeps_vectors_with_their_texts(batches_of_eight, vault, tmp_path):
    for number in range(2):
        write(vault / f"long {number}.md", long_note(number))
    rebuilt = []

    def rebuild(progress: Progress) -> None:
        if progress.phase == "vectors" and 0 < progress.done < progress.total and not rebuilt:
            (vault / "long 0.md").unlink()  # chunks get other row ids
            with open_library(vault, tmp_path / "index") as other:
                rebuilt.append(other.index(complete=False, rebuild=True))

    report = batches_of_eight.index(progress=rebuild)
    assert len(rebuilt) == 1
    batches_of_eight.status()  # opens the current index
    with open_library(vault, tmp_path / "fresh") as fresh:
        chunks = fresh.index().embedded
        assert dump(batches_of_eight) == dump(fresh)
        assert report.chunks == chunks


def test_public_library_indexes_and_answers(vault, tmp_path):
    from thumbindex import Library as Public

    with Public.open(
        [vault],
        index=tmp_path / "index",
        config=load_config(user_file=tmp_path / "none"),
        embedder=FakeEmbedder(),
    ) as library:
        library.index()
        assert library.query("cellar").passages[0].citation == "fruit/apples.md#Storing (lines 1-7)"


def test_emptied_folder_is_refused_unless_rebuilding(library: Library, vault: Path):
    library.index()
    shutil.rmtree(vault)
    vault.mkdir()
    with pytest.raises(UnknownFolderError, match="is empty, but its index has 3 documents"):
        library.index()
    assert paths(library, "apples cellar")[:1] == ["fruit/apples.md"]
    assert library.index(rebuild=True).removed == 3


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read everything")
def test_unreadable_folder_is_not_treated_as_empty(library: Library, vault: Path):
    library.index()
    vault.chmod(0)
    try:
        for rebuild in (False, True):
            with pytest.raises(UnknownFolderError, match=r"cannot be read .* nothing is deleted"):
                library.index(rebuild=rebuild)
    finally:
        vault.chmod(0o755)
    assert len(library.outline()) == 3


def test_read_flags_comments(vault, tmp_path):
    (vault / "a.md").write_text(
        "# A\n\n<!-- one -->\n\n```\n<!-- code -->\n```\n\n%%\ntwo\n%%\n" + "x <!-- y -->\n\n" * 6,
        encoding="utf-8",
    )
    with Library.open([vault], index=tmp_path / "index", embedder=FakeEmbedder()) as library:
        library.index()
        flags = library.read("a.md").flags
        unseen = ", invisible in the rendered note"
        assert flags[:2] == (f"3: a comment{unseen}", f"9: a comment up to line 11{unseen}")
        assert flags[5:] == ("18: 3 more comments on this line and below",)
        assert library.read("a.md", lines=(10, 10)).flags == (f"10: a comment{unseen}",)
