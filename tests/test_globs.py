"""Globs match as in git, and in linear time."""

import re
import time

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from thumbindex.globs import matches_glob, read_rules

SIGNS = [*"ab**?(+.^$é{|", "[ab]", "[!a]", ".md", "\\*"]
NAMES = st.just("**") | st.lists(st.sampled_from(SIGNS), min_size=1, max_size=5).map("".join)
PARTS = st.lists(NAMES, min_size=1, max_size=5).map("/".join)
GLOBS = st.builds("{}{}{}".format, st.sampled_from(["", "/"]), PARTS, st.sampled_from(["", "/"]))
PATHS = st.lists(
    st.sampled_from(["a", "b", "ab", "aab", "axb", "b.md", "*", "é", "a(+^$"]),
    min_size=1,
    max_size=6,
).map("/".join)


@settings(max_examples=400)
@given(GLOBS, PATHS)
@example("*.md", "a/b/c.md")
@example("a/**", "a")
@example("a/", "a")
@example(r"a\*", "a*")
@example("[^a]", "b")
@example("b/**/a*b*/**/*b", "b/ab/b/axb/b/ab")
def test_rules_and_globs_match_as_in_git(glob: str, path: str) -> None:
    # in pathspec, unlike git, a negated class matches a slash
    assume("/" not in path or not re.search(r"\[[!^]", glob))
    git_rule = GitIgnoreSpec.from_lines([glob])
    anchored = GitIgnoreSpec.from_lines([glob if glob.startswith(("/", "*")) else f"/{glob}"])
    assert read_rules([glob]).match_file(path) == git_rule.match_file(path)
    assert matches_glob(glob, path) == anchored.match_file(path)


@pytest.mark.parametrize(
    "glob",
    [
        "*a" * 40 + "*b",
        "**/*a" * 20 + "b",
        "[!b]*" * 50 + "b",
        "**/" + "a/**/" * 40 + "b",
        "**/*a*a*a/**/*a*a*a/**/b",
        "[",
    ],
)
def test_globs_with_many_stars_match_fast(glob: str) -> None:
    path = "a" * 250 + "/" + "a/" * 1_000 + "a" * 250
    started = time.process_time()
    assert not matches_glob(glob, path)
    assert not read_rules([glob]).match_file(path)
    assert time.process_time() - started < 2


@pytest.mark.parametrize("glob", ["docs\\a.md", "/docs/a.md", "docs/", "docs", "*.md", "docs/*.md"])
def test_globs_are_anchored_at_the_root_and_accept_backslashes(glob: str) -> None:
    assert [matches_glob(glob, path) for path in ("docs/a.md", "x/docs/b.txt")] == [True, False]


@pytest.mark.parametrize(
    ("glob", "path", "is_match"),
    [("a[!b]c", "axc", True), ("a[!b]c", "a/c", False), ("x[!]a]y", "xby", True)],
)
def test_negated_class_does_not_match_a_slash(glob: str, path: str, is_match: bool) -> None:
    assert matches_glob(glob, path) == is_match
