from thumbindex.corpus.parse import parse_headings


def test_headings_have_level_visible_text_and_line() -> None:
    text = "---\na: b\n---\n# *One*\n<!--\n## hidden\n-->\n\nTwo\n---\n> # quoted\n"
    assert parse_headings("a.md", text, in_vault=True) == ((1, "One", 4), (2, "Two", 9))
