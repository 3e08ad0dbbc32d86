import pytest

from thumbindex.query.versions import is_version, kinship, version_of


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        ("5.1/x.md", "7.6/x.md", "version"),
        ("docs/latest/x.md", "docs/7.x/x.md", "version"),
        ("de/x.md", "5.1/x.md", "version"),
        ("en/x.md", "de-DE/x.md", "language"),
        ("x.md", "de/x.md", "language"),
        ("guide-5.1.md", "guide-7.6.md", "name"),
        ("one/README.md", "two/README.md", "place"),
        ("a.md", "b.md", None),
        ("x/a.md", "y/b.md", None),
        ("a/b/x.md", "b/x.md", None),
        ("releases/v1.2.3.md", "releases/v1.2.4.md", None),
        ("daily/2026-01-02.md", "daily/2026-01-03.md", None),
    ],
)
def test_paths_are_parallel_by_one_folder_or_a_version_in_the_name(
    first: str, second: str, kind: str | None
) -> None:
    assert (kinship(first, second), kinship(second, first)) == (kind, kind)


@pytest.mark.parametrize(
    ("part", "version"),
    [("5.1", (5, 1)), ("v2", (2,)), ("guide-7.10.md", (7, 10)), ("de", ()), ("2026-01-02", ())],
)
def test_a_version_is_compared_by_its_numbers(part: str, version: tuple[int, ...]) -> None:
    assert (version_of(part), is_version(part)) == (version, bool(version))
