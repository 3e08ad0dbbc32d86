import pytest

from thumbindex.model import BlockKind, Chunk
from thumbindex.query.guards import differing, kept_apart, table_shape, word_overlap


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Logs are kept for 30 days.", "Logs are kept for 90 days."),
        ("A 30-day policy", "A 90-day policy"),
        ("Upload up to 50mb.", "Upload up to 500mb."),
        ("Wait 30 seconds.", "Wait 30 minutes."),
        ("It costs $5 a month.", "It costs €5 a month."),
        ("Keep three copies.", "Keep five copies."),
        ("From version 1.4.5 on", "From version 1.4.6 on"),
        ("From 5 to 10 files", "From 10 to 5 files"),
        ("The server supports TLS.", "The server does not support TLS."),
        ("The flag isn't needed.", "The flag is needed."),
        ("Streaming is supported.", "Streaming is unsupported."),
        ("A label must be unique.", "A label should be unique."),
        ("Run it before the upgrade.", "Run it after the upgrade."),
        ("Call `open` first.", "Call `close` first."),
        ("Set getUserById here.", "Set getUserByName here."),
        ("Pass --force to it.", "Pass --dry-run to it."),
        ("It uses UTF-16LE there.", "It uses UTF-8 there."),
        ("```\nNew-Item <String>\n```", "```\nNew-Item <Int>\n```"),
        ("In the end Alice decides.", "In the end Bob decides."),
        ("Where new notes are placed", "Where new attachments are placed"),
    ],
)
def test_a_number_version_unit_identifier_name_or_negation_keeps_both(first: str, second: str) -> None:
    assert differing(first, second) is not None
    assert differing(second, first) is not None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Keep 3 copies of a web-based\napp for 30 days.", "Keep 3 copies of a web-\nbased app for 30\ndays."),
        ("**Do not** use [[Sync|it]].", "__Do not__ use it."),
        ("- `--name` is required", "* `--name` is required"),
        ("Press `Ctrl` and `Enter`.", "Press Ctrl and Enter."),
        ("It’s a “wildcard”.", 'It\'s a "wildcard".'),
        ("~~~\nrun --fast\n~~~", "```\nrun --fast\n```"),
        ("Use snake\\_case here. ^block-1", "Use snake_case here."),
        ("1. First step", "1) First step"),
        ("Windows mode: `<Enter>`", "Windows mode: `Enter`"),
        ("Use docu-\nmentation", "Use documentation"),
        ("Snapshots typically use space", "Snapshots tipically use disk space"),
        ("It creates a daily log", "It creates daily logs"),
    ],
)
def test_markup_line_breaks_and_typography_do_not(first: str, second: str) -> None:
    assert differing(first, second) is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Every user may open it as\nwell.", "Each user may also open it."),
        ("Sync allows you to keep notes prior to a change.", "Sync lets you keep notes before a change."),
        ("It shows boxes that contain text.", "It displays boxes holding text."),
        ("Make sure that you use it, e.g. at once.", "Ensure that you employ it, for instance at once."),
    ],
)
def test_what_a_writer_puts_another_way_does_not(first: str, second: str) -> None:
    assert differing(first, second) is None
    assert differing(second, first) is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("It allows you to open it.", "It does not allow you to open it."),
        ("Open it prior to a change.", "Open it after a change."),
        ("Every note is kept.", "Some notes are kept."),
        ("Run `every day`.", "Run `each day`."),
        ("It stops when it is >= the limit.", "It stops when it is <= the limit."),
        ("It runs while a == b holds.", "It runs while a != b holds."),
        ("The client → the server.", "The client ← the server."),
        ("Written in C++ by two.", "Written in C by two."),
        ("Written in C# by two.", "Written in C++ by two."),
        ("Copy .env to it.", "Copy env to it."),
        ("Set maxSize in it.", "Set maxsize in it."),
        ("Das ist schön.", "Das ist schon."),
    ],
)
def test_phrases_signs_and_names_that_make_another_sentence_still_do(first: str, second: str) -> None:
    assert differing(first, second) is not None


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ("within 7 days", "within 14 days", "`7 day` against `14 day`"),
        ("The Server does support it.", "The Server does not support it.", "nothing against `not`"),
        ("Never use the Server.", "Use the Server.", "`never` against nothing"),
        ("Run it with `--force` now.", "Run it now.", "`--force` against nothing"),
    ],
)
def test_the_reason_names_what_differs(first: str, second: str, told: str) -> None:
    assert differing(first, second) == told


def test_tables_of_another_shape_are_kept_apart() -> None:
    table = "| Plan | Price |\n| --- | --- |\n| Free | none |"
    assert differing(table, f"{table}\n| Free | none |") is not None
    assert (table_shape(table), table_shape("prose")) == ((3, 2), (0, 0))


@pytest.mark.parametrize(("kind", "language"), [(BlockKind.LIST, ""), (BlockKind.CODE, "python")])
def test_other_kinds_and_languages_are_kept_apart(kind: BlockKind, language: str) -> None:
    prose, other = Chunk(0, 0, BlockKind.PROSE, ("T",), 1, 1, "same"), Chunk(0, 0, kind, ("T",), 1, 1, "same", language=language)
    assert (kept_apart(prose, other) is None, kept_apart(prose, prose)) == (False, None)


def test_overlap_counts_words_that_both_hold() -> None:
    assert (word_overlap("a b c", "B c *d*"), word_overlap("", "")) == (0.5, 1.0)
