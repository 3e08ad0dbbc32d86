"""A folder's own `thumbindex.toml` may come from anyone.

An invalid one is reported, exposes no private note, and affects no other folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from folders import open_library
from thumbindex.config import settings_by_key
from thumbindex.errors import UnknownPathError
from thumbindex.library import Library
from thumbindex.library.reader import PRIVACY_CHECK_SECONDS

NUMBER = f"x = {'1' * 5_000}\n"
PARTS = "\n".join(f"a{n}{'.a' * 899} = 1" for n in range(400))
MANY_KEYS = "".join(f"k{n} = 1\n" for n in range(800))

NOT_UNDERSTOOD = {
    "a number of 5,000 digits": (NUMBER, "too many digits"),
    "5,000 brackets": (f"x = {'[' * 5_000}\n", "too many nested brackets"),
    "400 lines of 900 parts": (PARTS, "more than 8,000 bytes"),
    "4 lines of 900 parts": ("\n".join(PARTS.split("\n")[:4]), "unknown key `a0`"),
    "800 unknown keys": (MANY_KEYS, "unknown key `k0`"),
    "invalid UTF-8": (b"# caf\xe9\n", "not UTF-8 at byte 5"),
    "no TOML": ("[query\n", ":1: not valid TOML"),
}
WRONG = {
    "a number of 5,000 hexadecimal digits": (
        f"[query]\nlimit = 0x{'f' * 5_000}\n",
        ": `query.limit` must be 1 to 100, not a number that large",
    ),
    "infinity": (
        "[query.recency]\nbias = inf\n",
        ": `query.recency.bias` must be a number, not inf",
    ),
    "an unknown key": (
        "[query]\nlimt = 3\n",
        ": unknown key `query.limt`: did you mean `query.limit`?",
    ),
    "another type": (
        "[query]\nlimit = 'three'\n",
        ": `query.limit` must be a whole number, not 'three'",
    ),
    "an unknown stage": (
        "[query]\nskip = ['fuze']\n",
        ": `query.skip` cannot be 'fuze': did you mean `fuse`?",
    ),
    "thresholds in the wrong order": (
        "[query.confidence]\nlow_below = 0.05\n",
        "must not be above",
    ),
    "a model": (
        "[encode.embed]\nmodel = 'evil/model'\n",
        ": `encode.embed.model` may not be set in a folder's own",
    ),
    "folders": (
        '[[folders]]\nname = "a"\npath = "/"\ntokens = ["*"]\n',
        "`folders` may not be set in a folder's own",
    ),
}


def write(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """A folder for an invalid settings file, and another folder with a valid one."""
    mine, strange = tmp_path / "mine", tmp_path / "strange"
    write(mine / "fruit.md", "# Fruit\n\nApples keep in a cool cellar.\n")
    write(mine / "day.md", "# Day\n\nApples of nobody's business.\n")
    write(mine / "thumbindex.toml", '[corpus.private]\nglobs = ["day.md"]\n')
    write(strange / "pie.md", "# Pie\n\nApples are baked into a pie.\n")
    return strange, mine


@pytest.fixture
def opened(places: tuple[Path, Path]) -> Iterator[Callable[..., Library]]:
    with ExitStack() as stack:
        yield lambda *overrides, alone=False: stack.enter_context(
            open_library(*places[: 1 if alone else 2], overrides=overrides)
        )


def found_paths(library: Library, query: str = "apples") -> set[str]:
    return {passage.path for passage in library.query(query, limit=20).passages}


def problems(library: Library) -> dict[str, list[str]]:
    return {
        folder_status.folder: [
            f"{problem.path}: {problem.reason}" for problem in folder_status.skipped
        ]
        for folder_status in library.status()
    }


# ------------------------------------------------------------------ invalid files


@pytest.mark.parametrize("name", [*NOT_UNDERSTOOD, *WRONG])
def test_invalid_file_is_ignored_and_blocks_indexing_only_if_unparsable(
    places: tuple[Path, Path], opened: Callable[..., Library], name: str
) -> None:
    text, says = {**NOT_UNDERSTOOD, **WRONG}[name]
    write(places[0] / "thumbindex.toml", text)
    library = opened()
    report = library.index()
    (problem,) = problems(library)["strange"]
    assert problem.startswith("thumbindex.toml")
    assert says in problem
    assert len(problem) < 400
    assert problem in [f"{skipped.path}: {skipped.reason}" for skipped in report.skipped]
    assert problems(library)["mine"] == []
    # the other folder's file still applies
    assert found_paths(library) == ({"fruit.md", "pie.md"} if name in WRONG else {"fruit.md"})
    assert library.only(["strange"]).config == library.config


LINKS = {
    "a symlink out": "../elsewhere.toml",
    "a symlink into a subfolder": "sub/own.toml",
    "a symlink to nowhere": "../gone.toml",
    "a symlink to itself": "thumbindex.toml",
    "a device": "/dev/zero",
}


@pytest.mark.parametrize("kind", [*LINKS, "a pipe", "a folder", "300 MB"])
def test_links_devices_and_huge_files_block_indexing(
    places: tuple[Path, Path],
    opened: Callable[..., Library],
    tmp_path: Path,
    kind: str,
) -> None:
    settings_file = places[0] / "thumbindex.toml"
    write(tmp_path / "elsewhere.toml", '[corpus.private]\nglobs = ["pie.md"]\n')
    write(places[0] / "sub/own.toml", '[corpus.private]\nglobs = ["pie.md"]\n')
    if kind in LINKS:
        settings_file.symlink_to(LINKS[kind])
    elif kind == "a pipe":
        os.mkfifo(settings_file)
    elif kind == "a folder":
        settings_file.mkdir()
    else:
        with settings_file.open("wb") as file:
            file.truncate(300_000_000)
    library = opened()
    library.index()
    assert [reported.partition(":")[0] for reported in problems(library)["strange"]] == [
        "thumbindex.toml"
    ]
    assert found_paths(library) == {"fruit.md"}


# ------------------------------------------------------------------ privacy


def test_invalid_file_still_keeps_its_notes_private(
    places: tuple[Path, Path], opened: Callable[..., Library]
) -> None:
    write(places[0] / "diary.md", "# Diary\n\nApples were sour.\n")
    write(places[0] / "plan.md", "# Plan\n\nApples in spring. #secret\n")
    write(
        places[0] / "thumbindex.toml",
        '[query]\nlimt = 3\n[corpus.private]\nglobs = ["diary.md"]\ntags = ["secret"]\n',
    )
    library = opened()
    library.index()
    assert found_paths(library) == {"fruit.md", "pie.md"}
    assert "unknown key `query.limt`" in problems(library)["strange"][0]


@pytest.mark.parametrize("line", ['exclude = ["diary.md"]', 'include = ["pie.md"]'])
def test_invalid_file_still_excludes_its_notes(
    places: tuple[Path, Path], opened: Callable[..., Library], line: str
) -> None:
    write(places[0] / "diary.md", "# Diary\n\nApples were sour.\n")
    write(places[0] / "thumbindex.toml", f"[query]\nlimt = 3\n[corpus]\n{line}\n")
    library = opened()
    library.index()
    assert found_paths(library) == {"fruit.md", "pie.md"}


BLOCKING = {
    "invalid TOML": '[corpus.private\nglobs = ["diary.md"]\n',
    "a misspelled table": '[corpus.privat]\nglobs = ["diary.md"]\n',
    "a list instead of a table": '[corpus]\nprivate = ["diary.md"]\n',
    "UTF-16": '[corpus.private]\nglobs = ["diary.md"]\n'.encode("utf-16"),
    "beyond the size limit": f'{"#" * 100_000}\n[corpus.private]\nglobs = ["diary.md"]\n',
    "exclude is no list": '[corpus]\nexclude = "diary.md"\n',
}


@pytest.mark.parametrize("name", BLOCKING)
def test_unreadable_privacy_file_blocks_indexing_of_new_notes(
    places: tuple[Path, Path], opened: Callable[..., Library], name: str
) -> None:
    settings_file = places[0] / "thumbindex.toml"
    write(places[0] / "leaf.md", "# Leaf\n\nApples have leaves.\n")
    write(places[0] / "diary.md", "# Diary\n\nApples were sour. #secret\n")
    write(settings_file, '[corpus.private]\nglobs = ["diary.md"]\ntags = ["secret"]\n')
    opened().index()
    write(settings_file, BLOCKING[name])
    write(places[0] / "new.md", "# New\n\nApples bloom.\n")
    write(places[0] / "pie.md", "# Pie\n\nApples are mine alone. #secret\n")
    library = opened()
    for path in ("pie.md", "new.md", "diary.md"):
        with pytest.raises(UnknownPathError, match="No note"):
            library.read(path)
    assert library.read("leaf.md").text.startswith("# Leaf")
    library.index()
    library.index(rebuild=True)
    assert found_paths(library) == {"fruit.md", "leaf.md"}
    assert found_paths(library, "sour diary mine alone bloom") <= {"fruit.md", "leaf.md"}
    assert (
        "New and changed notes are not indexed until you correct the file"
        in problems(library)["strange"][0]
    )
    assert library.why("new.md", "apples").reason == library.opened[1].config.folder_file_error
    freshness = library.query("apples", wait_fresh=5).freshness
    assert freshness is not None
    assert freshness.fresh
    write(settings_file, '[corpus.private]\nglobs = ["diary.md"]\ntags = ["secret"]\n')
    repaired = opened()
    repaired.index()
    assert (found_paths(repaired), problems(repaired)["strange"]) == (
        {"fruit.md", "leaf.md", "new.md"},
        [],
    )


def test_valid_glob_applies_beside_an_invalid_one(
    places: tuple[Path, Path], opened: Callable[..., Library]
) -> None:
    write(places[0] / "diary/day.md", "# Day\n\nApples were sour.\n")
    opened().index()
    absolute = f"{places[0].resolve()}/diary/**"
    write(
        places[0] / "thumbindex.toml",
        f'[corpus.private]\nglobs = ["diary/**", "./x/**", "{absolute}"]\n',
    )
    library = opened()
    assert found_paths(library) == {"fruit.md", "pie.md"}
    assert "'./x/**' contains" in problems(library)["strange"][0]


def test_open_library_stops_indexing_when_the_file_becomes_invalid(
    places: tuple[Path, Path], opened: Callable[..., Library]
) -> None:
    settings_file = places[0] / "thumbindex.toml"
    write(settings_file, '[corpus.private]\nglobs = ["diary*.md"]\n')
    write(places[0] / "diary.md", "# Diary\n\nApples were sour.\n")
    library = opened()
    library.index()
    write(settings_file, f'{NUMBER}[corpus.private]\nglobs = ["diary*.md"]\n')
    write(places[0] / "diary 2.md", "# Diary\n\nApples were sweet.\n")
    write(places[0] / "new.md", "# New\n\nApples bloom.\n")
    time.sleep(PRIVACY_CHECK_SECONDS)
    for some_library in (library, opened()):
        some_library.index()
        assert found_paths(some_library) == {"fruit.md", "pie.md"}
        assert "too many digits" in problems(some_library)["strange"][0]


def test_folder_file_cannot_weaken_the_users_privacy_rules(
    places: tuple[Path, Path], opened: Callable[..., Library]
) -> None:
    write(places[0] / "diary.md", "# Diary\n\nApples were sour.\n")
    write(
        places[0] / "thumbindex.toml", '[corpus.private]\nglobs = ["diary.md", "!diary.md", "!*"]\n'
    )
    library = opened("corpus.private.globs=diary.md")
    library.index()
    assert found_paths(library) == {"fruit.md", "pie.md"}


# ------------------------------------------------------------------ limits


def test_every_number_in_a_folder_file_has_bounds() -> None:
    numbers = [
        setting
        for setting in settings_by_key().values()
        if setting.key.startswith(("query.", "corpus.chunk.")) and setting.kind in (int, float)
    ]
    assert [
        number.key for number in numbers if number.minimum is None or number.maximum is None
    ] == []
    assert len(numbers) > 25


@pytest.mark.parametrize("skip", ["", "'fuse'"])
def test_extreme_folder_settings_keep_queries_cheap(
    places: tuple[Path, Path], opened: Callable[..., Library], skip: str
) -> None:
    for n in range(400):
        write(places[0] / f"{n}.md", f"# Apples {n}\n\nApples of tree {n} stand in row {n * n}.\n")
    relevance = (
        "[query.confidence]\nminimum_relevance = 0\nabstain_below = 0\n[query.deduplicate]\n"
        "method = 'semantic'\n"
    )
    write(places[0] / "thumbindex.toml", f"[query]\nlimit = 100\nskip = [{skip}]\n{relevance}")
    library = opened(alone=True)
    library.index()
    answer = library.query("apples tree row")
    assert problems(library)["strange"] == []
    assert answer.passages
    assert all(
        50 <= step.size_in <= 300
        for step in answer.trace
        if step.stage in {"headings", "deduplicate"}
    )


@pytest.mark.parametrize("line", ['globs = ["diary.md"]', 'tags = ["secret"]'])
def test_new_privacy_rule_applies_to_an_open_library(
    places: tuple[Path, Path], opened: Callable[..., Library], line: str
) -> None:
    write(places[0] / "diary.md", "# Diary\n\nApples were sour. #secret\n")
    library = opened()
    library.index()
    assert "diary.md" in found_paths(library)
    write(places[0] / "thumbindex.toml", f"[corpus.private]\n{line}\n")
    time.sleep(PRIVACY_CHECK_SECONDS)
    assert found_paths(library) == {"fruit.md", "pie.md"}  # before the next run
    with pytest.raises(UnknownPathError, match="No note"):
        library.read("diary.md")
    library.index()
    assert found_paths(library) == {"fruit.md", "pie.md"}
    (places[0] / "thumbindex.toml").unlink()  # an editor may delete it briefly
    time.sleep(PRIVACY_CHECK_SECONDS)
    library.index()
    assert found_paths(library) == {"fruit.md", "pie.md"}
    again = opened()
    again.index()
    assert found_paths(again) == {"fruit.md", "pie.md", "diary.md"}
