"""A note's date comes from the note, git or an observed edit, never from a copied file's time.

Git runs no program of the repository.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path

import pytest

from folders import open_library
from thumbindex.corpus.git import find_repository
from thumbindex.library import Library
from thumbindex.model import Document, Problem, day_of

Open = Callable[..., Library]
Git = Callable[..., str]
Commit = Callable[..., None]

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    root = tmp_path / "vault"
    root.mkdir()
    return root


@pytest.fixture
def open_vault(vault: Path, tmp_path: Path) -> Open:
    """Return a function that opens a folder like another process."""

    return lambda folder=vault: open_library(folder, index=tmp_path / "index")


@pytest.fixture
def git(vault: Path, tmp_path: Path) -> Git:
    """Return a function that runs git in the vault on a given day, without a user configuration."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    identity = {
        f"GIT_{role}_{field}": value
        for role in ("AUTHOR", "COMMITTER")
        for field, value in (("NAME", "Ada"), ("EMAIL", "ada@example.com"))
    }
    environment |= {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "HOME": str(tmp_path),
    } | identity

    def run(*arguments: str, day: str = "2026-01-31", folder: Path = vault) -> str:
        dates = {f"GIT_{role}_DATE": f"{day}T23:30:00-0500" for role in ("AUTHOR", "COMMITTER")}
        return subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env=environment | dates,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    run("init", "-q", "-b", "main")
    return run


@pytest.fixture
def commit(git: Git) -> Commit:
    """Return a function that commits everything on a given day."""

    def commit_it(day: str, folder: Path | None = None) -> None:
        options = {"folder": folder} if folder else {}
        git("add", "-A", day=day, **options)
        git("commit", "-qm", "x", day=day, **options)

    return commit_it


def write(path: Path, text: str, day: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if day:
        seconds = (date.fromisoformat(day) - date(1970, 1, 1)).days * 86_400 + 3_600
        os.utime(path, (seconds, seconds))


def documents(library: Library) -> Mapping[str, Document]:
    library.index(complete=False)
    return {
        document.path: document
        for document in library._readers[0].folder_snapshot().snapshot.catalog.documents
    }


def days(library: Library) -> dict[str, str]:
    return {path: str(day_of(document) or "") for path, document in documents(library).items()}


# ------------------------------------------------------------------ file times


def test_file_time_is_shown_but_is_not_a_date(vault: Path, open_vault: Open) -> None:
    write(vault / "old.md", "Released on 2020/08/21.\n\nPlums are ripe.\n")
    write(vault / "plums.md", "# Plums\n\nPlums keep for a week.\n", "2026-11-22")
    with open_vault() as library:
        library.index()
        passages = {passage.path: passage for passage in library.query("plums", limit=5).passages}
        dated = [
            passage.path for passage in library.query("plums", since=date(2020, 1, 1)).passages
        ]
    assert (passages["old.md"].created, passages["old.md"].file_time) == ("2020-08-21", "")
    assert (
        passages["plums.md"].created,
        passages["plums.md"].updated,
        passages["plums.md"].file_time,
    ) == ("", "", "2026-11-22")
    assert dated == ["old.md"]


def test_observed_edit_counts_by_its_file_time(vault: Path, open_vault: Open) -> None:
    write(vault / "a.md", "# A\n\nPlums.\n", "2026-01-01")
    write(vault / "b.md", "# B\n\nPears.\n", "2026-01-01")
    with open_vault() as library:
        assert days(library) == {"a.md": "", "b.md": ""}
        write(vault / "a.md", "# A\n\nPlums and pears.\n", "2026-02-03")
        write(vault / "b.md", "# B\n\nPears.\n", "2026-02-03")  # saved unchanged
        assert days(library) == {"a.md": "2026-02-03", "b.md": ""}


def test_note_newer_than_the_index_is_dated_by_its_file_time(vault: Path, open_vault: Open) -> None:
    write(vault / "a.md", "# A\n\nPlums.\n", "2026-01-01")
    with open_vault() as library:
        assert days(library) == {"a.md": ""}  # the first run observes no edit
        write(vault / "b.md", "# B\n\nPears.\n", "2026-02-03")
        write(vault / "old/c.md", "# C\n\nApples, copied with its time.\n", "2025-02-03")
        expected = {"a.md": "", "b.md": "2026-02-03", "old/c.md": ""}
        assert days(library) == expected
        assert [note.path for note in library.listing(since=date(2026, 2, 1)).notes] == ["b.md"]
        library.index(rebuild=True, complete=False)
        assert days(library) == expected
    with open_library(vault, index=vault.parent / "another") as another:
        assert days(another) == dict.fromkeys(expected, "")


@needs_git
def test_new_note_is_dated_by_its_commit_or_else_its_file(
    vault: Path, open_vault: Open, commit: Commit
) -> None:
    write(vault / "a.md", "Plums.", "2025-01-01")
    commit("2026-01-31")
    with open_vault() as library:
        assert days(library) == {"a.md": "2026-01-31"}
        write(vault / "b.md", "Pears, pulled.", "2026-05-01")
        commit("2026-02-28")
        write(vault / "c.md", "Not in git.", "2026-05-02")
        assert days(library) == {"a.md": "2026-01-31", "b.md": "2026-02-28", "c.md": "2026-05-02"}


def test_rebuild_keeps_observed_edits(vault: Path, open_vault: Open) -> None:
    for name in "ab":
        write(vault / f"{name}.md", "# A\n\nPlums.\n", "2026-01-01")
    with open_vault() as library:
        days(library)
        write(vault / "a.md", "# A\n\nPlums and pears.\n", "2026-02-03")
        before = days(library)
        write(vault / "b.md", "# A\n\nPlums.\n", "2026-03-04")
        library.index(rebuild=True, complete=False)
        assert days(library) == before == {"a.md": "2026-02-03", "b.md": ""}


# ------------------------------------------------------------------ git


@needs_git
def test_git_dates_notes_that_state_no_date(vault: Path, open_vault: Open, commit: Commit) -> None:
    for name, text in (("a.md", "Plums."), ("sub/ä.md", "Pears."), ("2019-05-05.md", "Apples.")):
        write(vault / name, text)
    commit("2026-01-31")
    write(vault / "a.md", "Plums and pears.")
    commit("2026-02-28")
    write(vault / "new.md", "Not in git.")
    with open_vault() as library:
        notes = documents(library)
        assert days(library) == {
            "2019-05-05.md": "2019-05-05",
            "a.md": "2026-02-28",
            "new.md": "",
            "sub/ä.md": "2026-01-31",
        }
        assert (notes["a.md"].first_commit, notes["a.md"].last_commit) == (
            "2026-01-31",
            "2026-02-28",
        )


@needs_git
def test_subfolders_clones_and_work_trees_have_git_dates(
    vault: Path, tmp_path: Path, open_vault: Open, git: Git, commit: Commit
) -> None:
    write(vault / "docs/a.md", "Plums.")
    write(vault / "-notes/b.md", "Pears.")
    commit("2026-01-31")
    with open_vault(vault / "-notes") as library:
        assert (days(library), [folder.skipped for folder in library.status()]) == (
            {"b.md": "2026-01-31"},
            [()],
        )
    git("clone", "-q", str(vault), str(tmp_path / "clone"))
    git("pack-refs", "--all", folder=tmp_path / "clone")
    git("worktree", "add", "-q", str(tmp_path / "tree"))
    for folder in (vault, tmp_path / "clone", tmp_path / "tree"):
        with open_vault(folder / "docs") as library:
            assert days(library) == {"a.md": "2026-01-31"}


@needs_git
def test_moved_file_keeps_its_dates(
    vault: Path, open_vault: Open, git: Git, commit: Commit
) -> None:
    write(vault / "a.md", "Plums.")
    commit("2026-01-31")
    write(vault / "a.md", "Plums and pears.")
    commit("2026-02-01")
    git("mv", "a.md", "b.md")
    commit("2026-03-01")
    write(vault / "a.md", "Another one.")
    commit("2026-04-01")
    with open_vault() as library:
        dates = {
            path: (document.first_commit, document.last_commit)
            for path, document in documents(library).items()
        }
    assert dates == {"a.md": ("2026-04-01", "2026-04-01"), "b.md": ("2026-01-31", "2026-02-01")}


@needs_git
def test_dates_survive_a_failure_of_git_until_the_next_commit(
    vault: Path, open_vault: Open, commit: Commit, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(vault / "a.md", "Plums.")
    commit("2026-01-31")
    with open_vault() as library:
        assert days(library) == {"a.md": "2026-01-31"}
        write(vault / "b.md", "Pears.", "2020-01-01")
        commit("2026-02-28")
        with monkeypatch.context() as without:
            without.setenv("PATH", "")
            assert days(library) == {"a.md": "2026-01-31", "b.md": ""}
        assert days(library) == {"a.md": "2026-01-31", "b.md": ""}  # no second attempt
        reason = (
            "commit dates are unknown: git is not on the PATH; thumbindex tries again after the "
            "next commit"
        )
        assert library.status()[0].skipped == (Problem(".git", None, reason),)
        write(vault / "c.md", "Apples.")
        commit("2026-03-01")
        assert days(library) == {"a.md": "2026-01-31", "b.md": "2026-02-28", "c.md": "2026-03-01"}
        assert library.status()[0].skipped == ()


@needs_git
def test_boundary_commits_of_a_shallow_clone_are_ignored(
    vault: Path, tmp_path: Path, open_vault: Open, git: Git, commit: Commit
) -> None:
    for name in "ab":
        write(vault / f"{name}.md", "Plums.")
    commit("2026-01-01")
    for n in (2, 3):
        write(vault / "a.md", f"Pears {n}.")
        commit(f"2026-01-0{n}")
    git("clone", "-q", "--depth", "2", vault.as_uri(), str(tmp_path / "clone"))
    with open_vault(tmp_path / "clone") as library:
        dates = {
            path: (document.first_commit, document.last_commit)
            for path, document in documents(library).items()
        }
    assert dates == {"a.md": ("", "2026-01-03"), "b.md": ("", "")}


@needs_git
@pytest.mark.parametrize(
    "kind",
    [
        "unborn",
        "orphan",
        "sha256",
        "elsewhere",
        "broken",
        "a pipe",
    ],
)
def test_unreliable_repository_gives_no_dates(
    kind: str, vault: Path, tmp_path: Path, open_vault: Open, git: Git, commit: Commit
) -> None:
    write(vault / "a.md", "Plums.")
    git_folder = vault / ".git"
    if kind == "sha256":
        shutil.rmtree(git_folder)
        git("init", "-q", "--object-format=sha256")
    if kind != "unborn":
        commit("2026-01-31")
    if kind == "orphan":
        git("checkout", "-q", "--orphan", "other")
    elif kind == "elsewhere":
        git_folder.rename(tmp_path / "secret")
        (vault / ".git").write_text(f"gitdir: {tmp_path / 'secret'}\n")
    elif kind == "broken":
        shutil.rmtree(git_folder / "objects")
        (git_folder / "objects").mkdir()
    elif kind == "a pipe":
        (git_folder / "HEAD").unlink()
        os.mkfifo(git_folder / "HEAD")
    with open_vault() as library:
        assert days(library) == {"a.md": ""}
        assert [problem.path for problem in library.status()[0].skipped] == (
            [] if kind in ("unborn", "orphan") else [".git"]
        )


@needs_git
@pytest.mark.skipif(os.name == "nt", reason="the programs are shell scripts")
def test_programs_configured_in_a_repository_are_never_run(
    vault: Path, tmp_path: Path, open_vault: Open, git: Git, commit: Commit
) -> None:
    log = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> "{log}"\ncat\n', encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    write(vault / "a.md", "Plums.", "2025-01-01")
    write(vault / ".gitattributes", "*.md diff=evil filter=evil merge=evil\n")
    commit("2026-01-31")
    write(vault / "a.md", "Pears and plums.", "2025-01-01")
    commit("2026-02-01")
    keys = """core.fsmonitor core.pager pager.log core.sshCommand core.editor core.askPass
    core.gitProxy core.alternateRefsCommand diff.external diff.evil.command diff.evil.textconv
    filter.evil.clean filter.evil.smudge filter.evil.process merge.evil.driver credential.helper
    gpg.program interactive.diffFilter uploadpack.packObjectsHook sequence.editor difftool.x.cmd"""
    for key in keys.split():
        git("config", key, str(program))
    for key, value in (
        ("alias.log", f"!{program}"),
        ("core.hooksPath", str(tmp_path)),
        ("log.showSignature", "true"),
        ("log.mailmap", "true"),
    ):
        git("config", key, value)
    for key, value in (
        ("remote.origin.url", f"ext::{program}"),
        ("remote.origin.promisor", "true"),
        ("extensions.partialClone", "origin"),
    ):
        git("config", key, value)
    (tmp_path / "more").write_text(
        f"[core]\n\tpager = {program}\n\tfsmonitor = {program}\n", encoding="utf-8"
    )
    git("config", "include.path", str(tmp_path / "more"))
    git("config", f"includeIf.gitdir:{vault}/.path", str(tmp_path / "more"))
    hooks = vault / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in (
        "post-checkout",
        "post-index-change",
        "reference-transaction",
        "fsmonitor-watchman",
        "pre-auto-gc",
    ):
        shutil.copy(program, hooks / name)
    # showing a signature would run gpg.program
    head, _, message = git("cat-file", "commit", "HEAD").partition("\n\n")
    (tmp_path / "signed").write_text(
        f"{head}\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\n\n"
        f"{message}",
        encoding="utf-8",
    )
    git(
        "update-ref",
        "refs/heads/main",
        git("hash-object", "-t", "commit", "-w", str(tmp_path / "signed")).strip(),
    )
    log.unlink(missing_ok=True)
    with open_vault() as library:
        assert days(library) == {"a.md": "2026-02-01"}
        write(vault / "new.md", "Apples.", "2025-01-01")
        assert days(library) == {"a.md": "2026-02-01", "new.md": ""}
    assert not log.exists()
    git("--paginate", "diff", "HEAD~1")
    assert log.exists()  # git itself runs the configured program


@needs_git
def test_user_s_git_environment_is_ignored(
    vault: Path, tmp_path: Path, open_vault: Open, commit: Commit, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(vault / "a.md", "Plums.")
    commit("2026-01-31")
    for name, value in {
        "GIT_DIR": "/nowhere",
        "GIT_PAGER": "false",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "x.y",
        "GIT_TRACE": "1",
    }.items():
        monkeypatch.setenv(name, value)
    with open_vault() as library:
        assert days(library) == {"a.md": "2026-01-31"}


@needs_git
@pytest.mark.skipif(os.name == "nt", reason="a shell script stands for git")
def test_git_in_the_vault_is_not_run(
    vault: Path, tmp_path: Path, open_vault: Open, commit: Commit, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(vault / "a.md", "Plums.")
    commit("2026-01-31")
    write(vault / "git", f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    (vault / "git").chmod(0o755)
    monkeypatch.chdir(vault)
    monkeypatch.setenv("PATH", ".")
    with open_vault() as library:
        assert days(library) == {"a.md": ""}
    assert not (tmp_path / "ran").exists()


def test_folder_outside_a_work_tree_has_no_repository(vault: Path) -> None:
    assert find_repository(vault) is None
