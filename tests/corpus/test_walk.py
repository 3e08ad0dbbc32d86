import os
from pathlib import Path

import pytest

from thumbindex.corpus.walk import walk
from thumbindex.errors import UnknownFolderError
from thumbindex.settings import CorpusSettings


def plant(root: Path, *paths: str, text: str = "x") -> Path:
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return root


def paths(root: Path, **settings: object) -> list[str]:
    return [file.path for file in walk(root, CorpusSettings(**settings))[0]]  # type: ignore[arg-type]


def reasons(root: Path, **settings: object) -> list[tuple[str, str]]:
    return [(problem.path, problem.reason) for problem in walk(root, CorpusSettings(**settings))[1]]  # type: ignore[arg-type]


def test_markdown_files_are_found_sorted_and_in_any_case(tmp_path: Path) -> None:
    plant(tmp_path, "b.md", "a/z.markdown", "a/y.MDX", "C.Md", "notes.txt", "md")
    assert paths(tmp_path) == ["C.Md", "a/y.MDX", "a/z.markdown", "b.md"]


def test_a_file_comes_with_its_size_time_and_inode_and_no_digest(tmp_path: Path) -> None:
    facts = (plant(tmp_path, "a.md", text="four") / "a.md").stat()
    (state,), _ = walk(tmp_path, CorpusSettings())
    assert (state.size, state.mtime_ns, state.inode, state.digest) == (4, facts.st_mtime_ns, facts.st_ino, "")


def test_a_vault_under_a_dot_directory_is_read_hidden_folders_inside_it_are_not(tmp_path: Path) -> None:
    root = plant(tmp_path / ".vaults" / "mine", "a.md", ".obsidian/b.md", "c/.d.md", ".git/e.md")
    assert paths(root) == ["a.md"]
    assert paths(root, hidden=True) == [".obsidian/b.md", "a.md", "c/.d.md"]


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        ({".gitignore": "drafts/\n"}, ["a.md", "keep/b.md", "keep/sub/c.md"]),
        ({".thumbindexignore": "b.md\n"}, ["a.md", "drafts/d.md", "keep/sub/c.md"]),
        ({".gitignore": "/a.md\n# a comment\n\n"}, ["drafts/d.md", "keep/b.md", "keep/sub/c.md"]),
        ({".gitignore": "*.md\n!keep/**\n"}, ["keep/b.md", "keep/sub/c.md"]),
        ({".gitignore": "*.md\n", "keep/.gitignore": "!b.md\n"}, ["keep/b.md"]),
        ({"keep/.gitignore": "/c.md\n"}, ["a.md", "drafts/d.md", "keep/b.md", "keep/sub/c.md"]),
        ({".gitignore": "keep\n", "keep/.gitignore": "!b.md\n"}, ["a.md", "drafts/d.md"]),
        ({".gitignore": "a.md\n", ".thumbindexignore": "!a.md\n"}, ["a.md", "drafts/d.md", "keep/b.md", "keep/sub/c.md"]),
    ],
)
def test_ignore_files_follow_git(tmp_path: Path, rules: dict[str, str], left: list[str]) -> None:
    plant(tmp_path, "a.md", "drafts/d.md", "keep/b.md", "keep/sub/c.md")
    for path, text in rules.items():
        (tmp_path / path).write_text(text)
    assert paths(tmp_path) == left


def test_globs_choose_files_and_an_include_does_not_undo_an_ignore_rule(tmp_path: Path) -> None:
    plant(tmp_path, "docs/a.md", "docs/old/b.md", "src/c.md")
    (tmp_path / ".gitignore").write_text("old/\n")
    assert paths(tmp_path, include=("docs/**",)) == ["docs/a.md"]
    assert paths(tmp_path, exclude=("docs/",)) == ["src/c.md"]


def test_a_symlink_is_followed_inside_the_folder_only(tmp_path: Path) -> None:
    root = plant(tmp_path / "vault", "a.md", ".store/b.md")
    plant(tmp_path, "secret/s.md")
    (root / "shown").symlink_to(root / ".store")
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "out.md").symlink_to(tmp_path / "secret/s.md")
    assert paths(root) == ["a.md", "shown/b.md"]
    assert reasons(root) == [(name, "symlink that leads out of the folder: not followed") for name in ("out", "out.md")]


def test_a_loop_of_symlinks_ends_and_a_file_reached_twice_is_listed_by_its_real_path(tmp_path: Path) -> None:
    plant(tmp_path, "notes/a.md")
    (tmp_path / "notes" / "loop").symlink_to(tmp_path)
    (tmp_path / "also").symlink_to(tmp_path / "notes")
    (tmp_path / "also.md").symlink_to(tmp_path / "notes/a.md")
    assert paths(tmp_path) == ["notes/a.md"]


def test_a_broken_symlink_is_reported(tmp_path: Path) -> None:
    (tmp_path / "gone.md").symlink_to(tmp_path / "nowhere.md")
    assert reasons(tmp_path) == [("gone.md", "symlink that leads nowhere")]


def test_a_file_over_the_maximum_is_reported_and_left_out(tmp_path: Path) -> None:
    plant(tmp_path, "small.md")
    plant(tmp_path, "big.md", text="x" * 11)
    assert paths(tmp_path, max_file_bytes=10) == ["small.md"]
    assert reasons(tmp_path, max_file_bytes=10) == [("big.md", "11 bytes, more than corpus.max_file_bytes (10): left out")]


@pytest.mark.skipif(os.name == "nt", reason="names are Unicode there")
def test_a_name_that_is_not_utf8_is_reported_and_does_no_harm(tmp_path: Path) -> None:
    plant(tmp_path, "ok.md")
    try:
        Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9.md")).write_text("x")
    except OSError:
        pytest.skip("this file system refuses such names")
    assert paths(tmp_path) == ["ok.md"]
    assert reasons(tmp_path) == [("caf\\xe9.md", "the name is not valid UTF-8: rename it to have it read")]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_cannot_be_listed_is_reported(tmp_path: Path) -> None:
    plant(tmp_path, "a.md", "locked/b.md")
    (tmp_path / "locked").chmod(0)
    try:
        assert (paths(tmp_path), reasons(tmp_path)) == (["a.md"], [("locked", "folder cannot be listed: Permission denied")])
    finally:
        (tmp_path / "locked").chmod(0o700)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_named_like_a_note_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    assert paths(tmp_path) == []


def test_a_folder_that_is_not_there_is_an_error_and_not_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(UnknownFolderError, match="no folder at"):
        walk(tmp_path / "gone", CorpusSettings())


def test_symlinks_to_notes_that_are_listed_by_their_own_path_are_told_of_once(tmp_path: Path) -> None:
    plant(tmp_path, "notes/a.md", "notes/b.md")
    for name, target in (("z.md", "a.md"), ("also.md", "a.md"), ("more.md", "b.md"), (".hidden.md", "b.md")):
        (tmp_path / name).symlink_to(tmp_path / "notes" / target)
    says = "symlink to a note that is listed once, by its own path; so are 2 other symlinks"
    assert (paths(tmp_path), reasons(tmp_path)) == (["notes/a.md", "notes/b.md"], [("also.md -> notes/a.md", says)])


def test_a_glob_that_matches_nothing_is_named(tmp_path: Path) -> None:
    plant(tmp_path, "a.md", "drafts/b.md")
    found = reasons(tmp_path, include=("*.md", "*.mdx"), exclude=("drafts/**", "draughts/**"))
    says = "this glob matches nothing in the folder: check its spelling"
    assert found == [("corpus.exclude 'draughts/**'", says), ("corpus.include '*.mdx'", says)]


def test_a_glob_over_what_is_left_out_anyway_is_not_named(tmp_path: Path) -> None:
    plant(tmp_path, "a.md", "old/x/b.md", ".trash/old/b.md", "images/c.png")
    exclude = ("old/", "old/x/**", ".trash/old/**", "**/*.png", "!keep.md", "/a.md")
    assert reasons(tmp_path, exclude=exclude) == [("corpus.exclude '!keep.md'", "this glob matches nothing in the folder: check its spelling")]


def test_globs_of_folders_are_met_by_what_is_in_them(tmp_path: Path) -> None:
    plant(tmp_path, "guides/a.md", "b.md")
    assert (paths(tmp_path, include=("guides/",)), reasons(tmp_path, include=("guides/",))) == (["guides/a.md"], [])
