import pytest

from thumbindex.compare.differences import contradiction, differing, kept_apart
from thumbindex.model import BlockKind, Chunk


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Wait 30 seconds.", "Wait 30 minutes."),
        ("The server supports TLS.", "The server does not support TLS."),
        ("Set getUserById here.", "Set getUserByName here."),
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


def test_plain_words_that_only_one_has_do_not() -> None:
    first, second = "Every user may open it as\nwell.", "Each and every user may open it as well."
    assert (differing(first, second), differing(second, first)) == (None, None)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Every note is kept.", "Some notes are kept."),
        ("Every user may open it.", "Each user may open it."),
        ("Run `every day`.", "Run `each day`."),
        (
            "The free plan has 5 seats, the team plan 9.",
            "The team plan has 5 seats, the free plan 9.",
        ),
        ("It stops when it is >= the limit.", "It stops when it is <= the limit."),
        ("The client → the server.", "The client ← the server."),
        ("Written in C++ by two.", "Written in C by two."),
        ("Copy .env to it.", "Copy env to it."),
        ("Das ist schön.", "Das ist schon."),
        (
            "Keep the file here and do not keep the folder.",
            "Do not keep the file here and keep the folder.",
        ),
    ],
)
def test_words_signs_and_an_order_that_make_another_sentence_keep_both(
    first: str, second: str
) -> None:
    assert differing(first, second) is not None


@pytest.mark.parametrize(
    ("text", "added"),
    [
        ("Kopien werden im Keller aufbewahrt.", "nur"),
        ("Les copies sont gardées à la cave.", "seulement"),
        ("Las copias se guardan en el sótano.", "sólo"),
        ("Le copie si trovano in cantina.", "soltanto"),
        ("As cópias ficam na cave.", "somente"),
        ("De kopieën liggen in de kelder.", "alleen"),
        ("Kopiorna ligger i källaren.", "bara"),
        ("Kopierne ligger i kælderen.", "kun"),
        ("Kopie leżą w piwnicy.", "tylko"),
        ("Копии лежат в подвале.", "только"),
    ],
)
def test_a_negation_keeps_both_in_other_languages(text: str, added: str) -> None:
    first, *rest = text.split()
    assert differing(text, " ".join((first, added, *rest))) is not None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Não apague as cópias.", "NÃO apague as cópias."),
        ("Le serveur n’efface rien.", "Le serveur n'efface rien."),
        ("Kopien liegen nicht im Keller.", "Kopien liegen nicht mit im Keller."),
    ],
)
def test_a_negation_that_both_have_keeps_no_two_apart(first: str, second: str) -> None:
    assert (differing(first, second), contradiction(first, second)) == (None, "")


def test_a_negation_of_another_language_is_no_contradiction() -> None:
    first = "Clique no botão para gravar a cópia que está na cave."
    second = "Clique em botão para gravar a cópia que está na cave."
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


@pytest.mark.parametrize(("kind", "language"), [(BlockKind.LIST, ""), (BlockKind.CODE, "python")])
def test_other_kinds_and_languages_are_kept_apart(kind: BlockKind, language: str) -> None:
    prose, other = (
        Chunk(0, 0, BlockKind.PROSE, ("T",), 1, 1, "same"),
        Chunk(0, 0, kind, ("T",), 1, 1, "same", language=language),
    )
    assert (kept_apart(prose, other) is None, kept_apart(prose, prose)) == (False, None)


def test_tables_of_another_shape_are_kept_apart() -> None:
    table = "| Plan | Price |\n| --- | --- |\n| Free | none |"
    assert differing(table, f"{table}\n| Free | none |") is not None
