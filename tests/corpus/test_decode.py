import pytest

from thumbindex.corpus.read import decode
from thumbindex.model import Problem


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        ("grün\n".encode(), "grün\n"),
        ("grün".encode("utf-8-sig"), "grün"),
        ("grün".encode("utf-16"), "grün"),
        (b"\xfe\xff" + "grün".encode("utf-16-be"), "grün"),
        ("grün".encode("utf-32"), "grün"),
        (b"a\r\nb\rc\nd", "a\nb\nc\nd"),
    ],
)
def test_every_usual_encoding_and_line_end_is_read_without_a_word(data: bytes, text: str) -> None:
    assert decode("a.md", data) == (text, ())


def test_bytes_that_are_not_utf8_are_read_as_windows_1252_and_reported_with_their_line() -> None:
    text, problems = decode("a.md", b"one\r\ntwo\r\ncaf\xe9 \x80")
    assert text == "one\ntwo\ncafé €"
    assert problems == (Problem("a.md", 3, "not UTF-8: read as Windows-1252; save the file as UTF-8"),)


def test_a_broken_byte_in_utf8_is_replaced_and_the_rest_kept() -> None:
    text, problems = decode("a.md", "grün ".encode() + b"\xff")
    assert text == "grün \ufffd"
    assert problems == (Problem("a.md", 1, "not UTF-8: what is not was replaced; save the file as UTF-8"),)


def test_nul_characters_are_replaced_and_reported() -> None:
    text, problems = decode("a.md", b"a\nb\0c\0")
    assert text == "a\nb\ufffdc\ufffd"
    assert problems == (Problem("a.md", 2, "2 NUL characters, replaced; is this a text file?"),)


def test_half_a_character_of_utf16_at_the_end_does_no_harm() -> None:
    text, problems = decode("a.md", "ab".encode("utf-16") + b"\x00")
    assert (text, [problem.line for problem in problems]) == ("ab\ufffd", [1])
