import os
from pathlib import Path

import pytest

from thumbindex.corpus.ignore import equivalent_paths, matches_private_globs
from thumbindex.corpus.walk import walk, why_left_out
from thumbindex.errors import UnknownFolderError
from thumbindex.settings import CorpusSettings, PrivateSettings


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


def test_markdown_files_are_listed_sorted_with_suffixes_in_any_case(tmp_path: Path) -> None:
    plant(tmp_path, "b.md", "a/z.markdown", "a/y.MDX", "C.Md", "notes.txt", "md")
    assert paths(tmp_path) == ["C.Md", "a/y.MDX", "a/z.markdown", "b.md"]


def test_hidden_folders_are_skipped_only_inside_the_vault(
    tmp_path: Path,
) -> None:
    root = plant(tmp_path / ".vaults" / "mine", "a.md", ".obsidian/b.md", "c/.d.md", ".git/e.md")
    assert paths(root) == ["a.md"]
    assert paths(root, hidden=True) == [".obsidian/b.md", "a.md", "c/.d.md"]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({".gitignore": "*.md\n", "keep/.gitignore": "!b.md\n"}, ["keep/b.md"]),
        ({".gitignore": "keep\n", "keep/.gitignore": "!b.md\n"}, ["a.md", "drafts/d.md"]),
    ],
)
def test_ignore_files_work_as_in_git(
    tmp_path: Path, rules: dict[str, str], expected: list[str]
) -> None:
    plant(tmp_path, "a.md", "drafts/d.md", "keep/b.md", "keep/sub/c.md")
    for path, text in rules.items():
        (tmp_path / path).write_text(text)
    assert paths(tmp_path) == expected


def test_include_globs_do_not_override_ignore_rules(tmp_path: Path) -> None:
    plant(tmp_path, "docs/a.md", "docs/old/b.md", "src/c.md")
    (tmp_path / ".gitignore").write_text("old/\n")
    assert paths(tmp_path, include=("docs/**",)) == ["docs/a.md"]
    assert paths(tmp_path, exclude=("docs/",)) == ["src/c.md"]


def test_symlinks_are_followed_only_inside_the_folder(tmp_path: Path) -> None:
    root = plant(tmp_path / "vault", "a.md", ".store/b.md")
    plant(tmp_path, "secret/s.md")
    (root / "shown").symlink_to(root / ".store")
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "out.md").symlink_to(tmp_path / "secret/s.md")
    assert paths(root) == ["a.md", "shown/b.md"]
    assert reasons(root) == [
        (name, "symlink points outside the folder: not followed") for name in ("out", "out.md")
    ]


def test_symlink_loops_end_and_files_are_listed_once_by_real_path(
    tmp_path: Path,
) -> None:
    plant(tmp_path, "notes/a.md")
    (tmp_path / "notes" / "loop").symlink_to(tmp_path)
    (tmp_path / "also").symlink_to(tmp_path / "notes")
    (tmp_path / "also.md").symlink_to(tmp_path / "notes/a.md")
    assert paths(tmp_path) == ["notes/a.md"]


def test_oversized_file_is_reported_and_skipped(tmp_path: Path) -> None:
    plant(tmp_path, "small.md")
    plant(tmp_path, "big.md", text="x" * 11)
    assert paths(tmp_path, max_file_bytes=10) == ["small.md"]
    assert reasons(tmp_path, max_file_bytes=10) == [
        ("big.md", "11 bytes, more than corpus.max_file_bytes (10): not indexed")
    ]


@pytest.mark.skipif(os.name == "nt", reason="names are Unicode there")
def test_non_utf8_name_is_reported(tmp_path: Path) -> None:
    plant(tmp_path, "ok.md")
    try:
        Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9.md")).write_text("x")
    except OSError:
        pytest.skip("this file system refuses such names")
    assert paths(tmp_path) == ["ok.md"]
    assert reasons(tmp_path) == [("caf\\xe9.md", "the name is not valid UTF-8: rename the file")]


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything"
)
def test_unreadable_folder_is_reported(tmp_path: Path) -> None:
    plant(tmp_path, "a.md", "locked/b.md")
    (tmp_path / "locked").chmod(0)
    try:
        assert (paths(tmp_path), reasons(tmp_path)) == (
            ["a.md"],
            [("locked", "folder cannot be listed: Permission denied")],
        )
    finally:
        (tmp_path / "locked").chmod(0o700)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_pipe_named_like_a_note_is_skipped(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    assert paths(tmp_path) == []


def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnknownFolderError, match="There is no folder"):
        walk(tmp_path / "gone", CorpusSettings())


def why(root: Path, path: str, **settings: object) -> str | None:
    return why_left_out(root, path, CorpusSettings(**settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("a.md", None),
        ("b.md", "it is ignored by .gitignore, line 3: b.*"),
        ("drafts/deep/c.md", "its folder drafts is ignored by .gitignore, line 4: drafts/"),
        ("sub/d.md", "it is ignored by sub/.thumbindexignore, line 1: d.md"),
        (
            ".obsidian/e.md",
            (
                "its folder .obsidian is hidden: its name begins with a dot (set corpus.hidden to "
                "include it)"
            ),
        ),
        ("notes.txt", "it is not Markdown: corpus.extensions lists .md, .markdown, .mdx"),
        ("nowhere.md", "there is no such file"),
    ],
)
def test_excluding_rule_is_named_with_its_file_and_line(
    tmp_path: Path, path: str, reason: str | None
) -> None:
    plant(
        tmp_path,
        "a.md",
        "b.md",
        "drafts/deep/c.md",
        "sub/d.md",
        "sub/b.md",
        ".obsidian/e.md",
        "notes.txt",
    )
    (tmp_path / ".gitignore").write_text("# mine\n\nb.*\ndrafts/\n")
    (tmp_path / "sub/.thumbindexignore").write_text("d.md\n!b.md\n")
    assert why(tmp_path, path) == reason


@pytest.mark.parametrize("settings", [{}, {"include": ("c/**", "/*.md")}])
def test_exactly_the_excluded_paths_have_a_reason(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    planted = ["a.md", ".h/b.md", "c/d.md", "c/.e.md", "c/f.txt", "g/h.md", "g/i.md"]
    plant(tmp_path, *planted)
    (tmp_path / ".gitignore").write_text("*.md\n!c/**\n!a.md\n")
    (tmp_path / "g/.gitignore").mkdir()
    listed = set(paths(tmp_path, **settings))
    assert {path for path in planted if why(tmp_path, path, **settings) is None} == listed


def test_node_modules_is_excluded_by_default_at_any_depth(
    tmp_path: Path,
) -> None:
    for path in (
        "a.md",
        "node_modules/x/README.md",
        "app/node_modules/y/README.md",
        "node_modules.md",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("text", encoding="utf-8")
    assert paths(tmp_path) == ["a.md", "node_modules.md"]
    assert len(paths(tmp_path, exclude=())) == 4
    assert reasons(tmp_path / "app" / "node_modules" / "y") == []


@pytest.mark.parametrize("line", ["!", "[z-a]", "\\"])
def test_invalid_ignore_lines_are_ignored(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.md").write_text("# A", encoding="utf-8")
    (tmp_path / "b.md").write_text("# B", encoding="utf-8")
    (tmp_path / ".gitignore").write_text(f"{line}\nb.md\n", encoding="utf-8")
    settings = CorpusSettings(exclude=(line,), private=PrivateSettings(globs=(line,)))
    assert [file.path for file in walk(tmp_path, settings)[0]] == ["a.md"]


@pytest.mark.parametrize(
    "glob", ["diary\\day.md", "[diary/**", "[diary]/", "diary/d[ay.md", "DIARY/*"]
)
def test_private_globs_match_as_intended(glob: str) -> None:
    path = (
        "[diary/day.md"
        if glob.startswith("[diary/")
        else "[diary]/day.md"
        if glob.startswith("[")
        else "diary/day.md"
    )
    path = "diary/d[ay.md" if "d[ay" in glob else path
    assert matches_private_globs(path, (glob,))


def test_equivalent_paths_include_intermediate_symlinks(
    tmp_path: Path,
) -> None:
    root = tmp_path / "vault"
    for folder in (".store", "private/sub"):
        (root / folder).mkdir(parents=True)
    (root / "private/alias").symlink_to("../.store")
    (tmp_path / "out").symlink_to(root / "private/alias")
    (root / "open").symlink_to("../out")
    (root / "sub").symlink_to("private/sub")
    (root / "dots").symlink_to("sub/../alias")
    for path in ("open/x.md", "dots/x.md"):
        names = equivalent_paths(str(root), path, {})
        assert ("private/alias/x.md" in names, names[-1]) == (True, ".store/x.md")


def test_symlink_chain_has_linearly_many_paths(tmp_path: Path) -> None:
    for n in range(40):
        (tmp_path / f".s/{n}").mkdir(parents=True)
        (tmp_path / f".s/{n}/b").symlink_to(f"../{n + 1}")
    (tmp_path / "a").symlink_to(".s/0")
    assert len(equivalent_paths(str(tmp_path), f"a/{'b/' * 20}x.md", {})) < 50


def test_folder_glob_does_not_exclude_notes_at_the_root(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for path in ("a.md", "b/c.md"):
        (tmp_path / path).touch()
    assert paths(tmp_path, private=PrivateSettings(globs=("*/**",))) == ["a.md"]
