import pytest

from thumbindex.compare.differences import contradiction, differing, kept_apart, word_overlap
from thumbindex.model import BlockKind, Chunk


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
def test_a_number_version_unit_identifier_name_or_negation_keeps_both(
    first: str, second: str
) -> None:
    assert differing(first, second) is not None
    assert differing(second, first) is not None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "Keep 3 copies of a web-based\napp for 30 days.",
            "Keep 3 copies of a web-\nbased app for 30\ndays.",
        ),
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
        (
            "Sync allows you to keep notes prior to a change.",
            "Sync lets you keep notes before a change.",
        ),
        ("It is usually done by hand.", "It is normally done by hand."),
        ("It shows boxes that contain text.", "It displays boxes holding text."),
        (
            "Make sure that you use it, e.g. at once.",
            "Ensure that you employ it, for instance at once.",
        ),
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
        ("It is normally done by hand.", "It is always done by hand."),
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
        (
            "Keep the file here and do not keep the folder.",
            "Do not keep the file here and keep the folder.",
        ),
    ],
)
def test_phrases_signs_and_names_that_make_another_sentence_still_do(
    first: str, second: str
) -> None:
    assert differing(first, second) is not None


@pytest.mark.parametrize(
    ("text", "added"),
    [
        ("Kopien werden im Keller aufbewahrt.", "nur"),
        ("Kopien werden im Keller aufbewahrt.", "mindestens"),
        ("Les copies sont gardées à la cave.", "seulement"),
        ("Les copies sont gardées à la cave.", "presque"),
        ("Las copias se guardan en el sótano.", "sólo"),
        ("Las copias se guardan en el sótano.", "siempre"),
        ("Le copie si trovano in cantina.", "soltanto"),
        ("Le copie si trovano in cantina.", "quasi"),
        ("As cópias ficam na cave.", "só"),
        ("As cópias ficam na cave.", "sempre"),
        ("De kopieën liggen in de kelder.", "alleen"),
        ("De kopieën liggen in de kelder.", "altijd"),
        ("Kopiorna ligger i källaren.", "bara"),
        ("Kopiorna ligger i källaren.", "nästan"),
        ("Kopierne ligger i kælderen.", "kun"),
        ("Kopierne ligger i kælderen.", "altid"),
        ("Kopie leżą w piwnicy.", "tylko"),
        ("Kopie leżą w piwnicy.", "zawsze"),
        ("Копии лежат в подвале.", "только"),
        ("Копии лежат в подвале.", "почти"),
    ],
)
def test_a_word_that_turns_a_sentence_round_keeps_both_in_other_languages(
    text: str, added: str
) -> None:
    first, *rest = text.split()
    assert differing(text, " ".join((first, added, *rest))) is not None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Não apague as cópias.", "NÃO apague as cópias."),
        ("Le serveur n’efface rien.", "Le serveur n'efface rien."),
        ("Keine Kopie liegt im Keller.", "KEINE Kopie liegt im Keller."),
        ("Kopien liegen nicht im Keller.", "Kopien liegen nicht mit im Keller."),
        ("Ключ не лежит в сейфе.", "Ключ не лежит тут в сейфе."),
    ],
)
def test_a_negation_that_both_have_keeps_no_two_apart(first: str, second: str) -> None:
    assert (differing(first, second), contradiction(first, second)) == (None, "")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "Clique no botão para gravar a cópia que está na cave.",
            "Clique em botão para gravar a cópia que está na cave.",
        ),
        (
            "Hon har sin nyckel i skåpet och den är kvar.",
            "Hon har en nyckel i skåpet och den är kvar.",
        ),
        (
            "De server kun je in de kelder van het huis vinden.",
            "De server je in de kelder van het huis vinden.",
        ),
    ],
)
def test_what_denies_in_another_language_alone_is_no_contradiction(first: str, second: str) -> None:
    assert differing(first, second) is not None
    assert (contradiction(first, second), contradiction(second, first)) == ("", "")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("钥匙保存在地下室保险箱里。", "钥匙不保存在地下室保险箱里。"),
        (
            "Το κλειδί φυλάσσεται εδώ και είναι ασφαλές.",
            "Το κλειδί δεν φυλάσσεται εδώ και είναι ασφαλές.",
        ),
    ],
)
def test_in_a_language_whose_negations_are_not_known_any_word_keeps_both(
    first: str, second: str
) -> None:
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


@pytest.mark.parametrize(("kind", "language"), [(BlockKind.LIST, ""), (BlockKind.CODE, "python")])
def test_other_kinds_and_languages_are_kept_apart(kind: BlockKind, language: str) -> None:
    prose, other = (
        Chunk(0, 0, BlockKind.PROSE, ("T",), 1, 1, "same"),
        Chunk(0, 0, kind, ("T",), 1, 1, "same", language=language),
    )
    assert (kept_apart(prose, other) is None, kept_apart(prose, prose)) == (False, None)


def test_overlap_counts_words_that_both_hold() -> None:
    assert (word_overlap("a b c", "B c *d*"), word_overlap("", "")) == (0.5, 1.0)
