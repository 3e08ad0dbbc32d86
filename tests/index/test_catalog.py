"""Globs of a filter mean what they mean to git, and none takes long."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from thumbindex.index.filters import meets

PARTS = st.lists(
    st.sampled_from(["a", "b", "ab", "*", "**", "?", "a*", "*b", "[ab]", "[!a]", "a?b*"]),
    min_size=1,
    max_size=4,
).map("/".join)
GLOBS = st.builds(lambda glob, slash: glob + slash, PARTS, st.sampled_from(["", "", "/"]))
PATHS = st.lists(
    st.sampled_from(["a", "b", "ab", "aab", "axb", "c.md"]), min_size=1, max_size=5
).map("/".join)


def as_git(glob: str, path: str) -> bool:
    return GitIgnoreSpec.from_lines(
        [glob if glob.startswith(("/", "*")) else f"/{glob}"]
    ).match_file(path)


@given(GLOBS, PATHS)
@example("*.md", "a/b/c.md")
@example("a/**", "a")
@example("a/", "a")
def test_a_glob_means_what_it_means_to_git(glob: str, path: str) -> None:
    assert meets(glob, path) == as_git(glob, path)


@pytest.mark.parametrize(("glob", "path"), [(r"a\*", "a*"), ("[^a]", "b")])
def test_escapes_and_classes_are_gits_too(glob: str, path: str) -> None:
    assert (meets(glob, path), as_git(glob, path)) == (True, True)


@pytest.mark.parametrize("glob", ["*a" * 40 + "b", "**/*a" * 20 + "b", "[!b]*" * 50 + "b", "["])
def test_no_glob_takes_long(glob: str) -> None:
    began = time.process_time()
    assert not meets(glob, "a" * 255 + "/" + "/".join("a" * 1000) + "/" + "a" * 255)
    assert time.process_time() - began < 1.0
