from __future__ import annotations

import time

import pytest

from thumbindex.corpus.abbreviations import find_abbreviations, find_definitions
from thumbindex.corpus.markdown import parse_markdown
from thumbindex.corpus.parse import parse_document
from thumbindex.corpus.source import read_source
from thumbindex.settings import CorpusSettings


def abbreviations_in(markdown: str) -> list[tuple[str, ...]]:
    document = parse_document("a.md", markdown.encode(), CorpusSettings()).document
    return [tuple(abbreviation) for abbreviation in document.abbreviations]


@pytest.mark.parametrize(
    ("text", "short", "long"),
    [
        ("The **Single Sign-On** (SSO) page.", "SSO", "Single Sign-On"),
        ("SSO (single sign-on, for teams) is new.", "SSO", "single sign-on"),
        ("Software as a Service (SaaS) costs.", "SaaS", "Software as a Service"),
        ("the return on an investment (RI)", "RI", "return on an investment"),
        ("All of it is JavaScript (JS).", "JS", "JavaScript"),
        ("Custom Resource Definitions (CRDs)", "CRD", "Custom Resource Definitions"),
    ],
)
def test_definition_yields_short_and_long_form(text: str, short: str, long: str) -> None:
    assert list(find_definitions(text)) == [(short, long)]


@pytest.mark.parametrize(
    "text",
    [
        "`Single Sign-On (SSO)`",
        "Single Sign-On (`SSO`)",
        "Open the files (all) now.",
        "It (information technology) is here.",
        "The user (US) is here.",
        "SSO (see the other page)",
        "[Single Sign-On](SSO)",
    ],
)
def test_remarks_code_and_links_define_nothing(text: str) -> None:
    assert list(find_definitions(text)) == []


def test_definitions_are_found_everywhere_except_in_code_blocks() -> None:
    text = (
        "# Single Sign-On (SSO)\n\n## Command Line Interface (CLI)\n\nA content\n"
        "delivery network (CDN).\n\n"
        "- a Web Application\n  Firewall (WAF)\n\n> an Access\n> Point (AP)\n\n"
        "```\nPersonal Access Token (PAT)\n```\n\nSo:\n\n    Access Control List (ACL)\n"
    )
    assert abbreviations_in(text) == [
        ("sso", "single sign on"),
        ("cli", "command line interface"),
        ("cdn", "content delivery network"),
        ("waf", "web application firewall"),
        ("ap", "access point"),
    ]


@pytest.mark.parametrize("unit", ["((((", "AB (a b) ", "A (A ", "`"])
def test_adversarial_text_takes_bounded_time(unit: str) -> None:
    source = read_source((unit * 100_000)[:100_000])
    markdown = parse_markdown(source.text)
    start = time.process_time()
    find_abbreviations("", source, markdown)
    assert time.process_time() - start < 3.0
