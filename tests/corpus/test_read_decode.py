import random
import zlib
from dataclasses import replace

import pytest

from thumbindex.corpus.parse import parse_document
from thumbindex.corpus.read import decode, decode_visible, is_text
from thumbindex.model import Problem
from thumbindex.settings import CorpusSettings


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        ("grün\n".encode(), "grün\n"),
        ("grün".encode("utf-8-sig"), "grün"),
        ("grün".encode("utf-16"), "grün"),
        (b"a\r\nb\rc\nd", "a\nb\nc\nd"),
    ],
)
def test_common_encodings_and_line_ends_decode_without_problems(data: bytes, text: str) -> None:
    assert decode("a.md", data) == (text, ())


def test_non_utf8_file_is_read_as_windows_1252_and_reported() -> None:
    text, problems = decode("a.md", b"one\r\ntwo\r\ncaf\xe9 \x80")
    assert text == "one\ntwo\ncafé €"
    assert problems == (
        Problem("a.md", 3, "not UTF-8: decoded as Windows-1252; save the file as UTF-8"),
    )


def test_invalid_byte_in_utf8_is_replaced() -> None:
    text, problems = decode("a.md", "grün ".encode() + b"\xff")
    assert text == "grün \ufffd"
    assert problems == (
        Problem("a.md", 1, "not UTF-8: invalid bytes were replaced; save the file as UTF-8"),
    )


def test_nul_characters_are_replaced_and_reported() -> None:
    text, problems = decode("a.md", b"a\nb\0c\0")
    assert text == "a\nb\ufffdc\ufffd"
    assert problems == (Problem("a.md", 2, "2 NUL characters were replaced; is this a text file?"),)


BINARY = random.Random(7).randbytes(20_000)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"buy milk\0",
        b"What was written. " * 30 + bytes(3_500),
        "Вот и всё, что я хотел сказать.\r\n".encode("cp1251"),
        "これは日本語の文章です。".encode("shift_jis"),
    ],
)
def test_human_text_is_text_in_any_encoding(data: bytes) -> None:
    assert is_text(data)
    assert bool(decode_visible("a.md", data)) == bool(data)


@pytest.mark.parametrize(
    "data",
    [
        BINARY,
        zlib.compress(bytes(range(256)) * 40 + BINARY),
        ("in UTF-16 without a mark " * 4).encode("utf-16-le"),
    ],
)
def test_binary_file_is_an_empty_document_and_reported(data: bytes) -> None:
    parsed = parse_document("photo.md", data, CorpusSettings())
    plain = replace(parsed, problems=(), document=replace(parsed.document, flags=()))
    assert plain == parse_document("photo.md", b"", CorpusSettings())
    assert parsed.document.flags[0].startswith("1: not text")
    assert [(problem.line, problem.reason.split(",")[0]) for problem in parsed.problems] == [
        (None, "not text")
    ]
    assert decode_visible("photo.md", data) == ""


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_private_note_is_private_in_every_encoding(encoding: str) -> None:
    data = "---\nprivate: true\n---\n# A\n\nPlums.\n".encode(encoding)
    assert parse_document("a.md", data, CorpusSettings()).private


def test_binary_content_does_not_override_a_private_marker() -> None:
    assert parse_document("a.md", b"---\nprivate: true\n---\n" + BINARY, CorpusSettings()).private
