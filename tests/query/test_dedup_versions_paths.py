import pytest

from thumbindex.query.copies import version_of, without_versions


@pytest.mark.parametrize(
    ("first", "second", "is_one_page"),
    [
        ("5.1/x.md", "7.6/x.md", True),
        ("docs/latest/x.md", "docs/7.x/x.md", True),
        ("x.md", "v2/x.md", True),
        ("guide-5.1/x.md", "guide-7.6/x.md", True),
        ("guide-5.1/x.md", "tour-5.1/x.md", False),
        ("guide-5.1.md", "guide-7.6.md", True),
        ("de/x.md", "en/x.md", False),
        ("one/README.md", "two/README.md", False),
        ("x/a.md", "x/b.md", False),
        ("releases/v1.2.3.md", "releases/v1.2.4.md", False),
        ("daily/2026-01-02.md", "daily/2026-01-03.md", False),
        ("2026.01.02/x.md", "2026.01.03/x.md", False),
    ],
)
def test_paths_of_versions_differ_only_in_version(
    first: str, second: str, is_one_page: bool
) -> None:
    assert (without_versions(first) == without_versions(second)) is is_one_page


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("5.1/x.md", (5, 1)),
        ("v2/x.md", (2,)),
        ("guide-7.10.md", (7, 10)),
        ("de/x.md", ()),
        ("2026.01.02/x.md", ()),
    ],
)
def test_version_is_parsed_as_numbers(path: str, version: tuple[int, ...]) -> None:
    assert version_of(path) == version
