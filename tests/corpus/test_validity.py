"""What notes say about their validity."""

import time

import pytest

from thumbindex.corpus.parse import parse_document
from thumbindex.model import SUCCESSION
from thumbindex.settings import CorpusSettings


def validity(text: str) -> tuple[str, str, list[tuple[str, str]]]:
    parsed = parse_document("adr/0003-a.md", text.encode(), CorpusSettings())
    links = [(link.kind.value, link.target) for link in parsed.links if link.kind in SUCCESSION]
    return parsed.document.status, parsed.document.valid_until, links


@pytest.mark.parametrize(
    ("text", "status", "successors"),
    [
        ("---\nstatus: Superseded\n---\n", "superseded", []),
        ("# A\n\ndeprecated:: true\n", "deprecated", []),
        ("# A\n\nBy Ada [status:: archived]\n", "archived", []),
        ("---\nsuperseded_by: '[[b]]'\n---\n", "superseded", ["b"]),
        ("---\nsuperseded-by: [[b]]\n---\n", "superseded", ["b"]),
        ("---\nsupersededBy: notes/b.md\n---\n", "superseded", ["notes/b.md"]),
        ("---\nreplaced by: Plan B\n---\n", "superseded", ["Plan B"]),
        ("---\nreplaced_by:\n  - '[[b]]'\n  - ADR-7\n---\n", "superseded", ["b", "ADR-7"]),
        ("---\nsuperseded_by: https://b.org/x\n---\n", "superseded", ["https://b.org/x"]),
        ("---\ndeprecated: true\nstatus: accepted\n---\n", "deprecated", []),
        ("---\ndeprecated: use [[b]]\n---\n", "deprecated", ["b"]),
        ("---\nstatus: superseded by [ADR-5](5-b.md)\n---\n", "superseded", ["5-b.md"]),
        ("+++\narchived = true\n+++\n", "archived", []),
        ("superseded-by:: [[b]]\n\n- text\n", "superseded", ["b"]),
        ("# A\n\nStatus: Superseded by [ADR-12](0012-b.md)\n", "superseded", ["0012-b.md"]),
        ("# A\n\n* Status: Superceded by ADR-0012\n", "superseded", ["ADR-0012"]),
        ("# A\n\n**Status:** deprecated\n", "deprecated", []),
        ("# A\n\n| Status | Superseded by [B](b.md) |\n|-|-|\n", "superseded", ["b.md"]),
        ("# A\n\nStatus: deprecated, replaced by [[b]]\n", "deprecated", ["b"]),
        ("# A\n\nStatus: rejected by [[Board]], see [[Minutes]]\n", "rejected", []),
        ("# A\n\nStatus: deprecated due to [[Outage]]\n", "", []),
        ("# A\n\nStatus: deprecated. Reason: [[Outage]]\n", "deprecated", []),
        ("# A\n\nThis page was archived by [[Bob]].\n", "archived", []),
        ("# A\n\nStatus: replaced by Python 3\n", "superseded", []),
        ("# A\n\nStatus: superseded by 3 newer notes\n", "superseded", []),
        ("# A\n\nStatus: superseded by 2.0\n", "superseded", []),
        ("---\ndeprecated: 2.1\n---\n", "deprecated", []),
        ("# A\n\nObsoleted by: 14, 15\n", "superseded", ["14", "15"]),
        (
            "# 3. A\n\n## Status\n\nAccepted\n\nSuperseded by [2. B](2-b.md)\n",
            "superseded",
            ["2-b.md"],
        ),
        ("# 3. A\n\n## Status\n\nDeprecated\n", "deprecated", []),
        ("# A\n\n> [!warning] Deprecated\n> Use [[b]] instead.\n", "deprecated", ["b"]),
        ("# A\n\n> [!WARNING]\n> **Deprecated**: use [[b]].\n", "deprecated", ["b"]),
        ("# A\n\n> [!deprecated]\n> Use [[b]].\n", "deprecated", ["b"]),
        ('# A\n\n!!! warning "Deprecated"\n    Use [B](b.md).\n', "deprecated", ["b.md"]),
        ("# A\n\n:::warning[Deprecated]\nUse [B](b.md).\n:::\n", "deprecated", ["b.md"]),
        ("# A\n\n⚠️ **DEPRECATED** – see [B](b.md)\n", "deprecated", ["b.md"]),
        ("# A\n\nThis page has been superseded by [B](b.md).\n", "superseded", ["b.md"]),
        ("# A\n\n**This document is obsolete.** Read [B](b.md).\n", "obsolete", ["b.md"]),
        ("# A\n\nThis page has moved to [[b]].\n", "superseded", ["b"]),
        ("# A\n\nDeprecated in favor of [[b]].\n", "deprecated", ["b"]),
        ("# A\n\n![logo](x.png)\n\nOutdated. Part of [[Home]].\n", "outdated", []),
    ],
)
def test_retirement_is_read(text: str, status: str, successors: list[str]) -> None:
    assert validity(text) == (status, "", [("successor", target) for target in successors])


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("---\nsuperseded_by: none\ndeprecated: false\n---\n", ""),
        ("---\nsuperseded_by: '?'\n---\n", ""),
        ("---\nsuperseded_by: nobody yet\n---\n", ""),
        ("---\nsuperseded_by: '<!-- fill in -->'\n---\n", ""),
        ("# A\n\ndeprecated:: false\n", ""),
        ("# A\n\ndeprecated: false\n", ""),
        ("archived:: no\n\n- a\n", ""),
        ("---\ndraft: true\nstatus: approved\n---\n", "draft"),
        ("---\nstatus: In  review\n---\n", "in review"),
        ("# A\n\n* Status: accepted\n", "accepted"),
        ("# A\n\n| Status | Date |\n|-|-|\n| deprecated | 2020 |\n", ""),
        ("# A\n\n```\nStatus: deprecated\n```\n", ""),
        ("# A\n\n<!-- Deprecated. -->\n", ""),
        ("# A\n\n`Deprecated`: a flag\n", ""),
        ("# A\n\nDeprecated options are listed in [[b]].\n", ""),
        ("# A\n\nDeprecated, obsolete and old things\n", ""),
        ("# A\n\n- Deprecated: x\n- Obsolete: y\n", ""),
        ("# A\n\nArchived by default are old files.\n", ""),
        ("# A\n\nThis page is archived weekly.\n", ""),
        ("# A\n\nMoved to Berlin in 2019.\n", ""),
        ("# A\n\nMoved to [[Berlin]] in 2019.\n", ""),
        ("# A\n\nMoved to [[Berlin]].\n\nA long drive.\n", ""),
        ("# A\n\nReplaces: the old bike\n", ""),
        ("# A\n\nReplaced by the plumber on Tuesday, works now.\n", ""),
        ("# A\n\nArchived (in the attic): photos\n", ""),
        ("# A\n\nStatus: not superseded by anything\n", ""),
        ("# A\n\nStatus: Accepted, partially superseded by [[ADR 12]]\n", "accepted"),
        ("# A\n\nStatus: accepted; will be replaced by [[B]] in 2030\n", "accepted"),
        ("# A\n\nStatus: accepted, partially supersedes [[B]]\n", "accepted"),
        ("# A\n\n- **status**: deprecated, active or draft; the state\n", ""),
        ("# A\n\n| Status | Meaning |\n|-|-|\n| status | deprecated |\n", ""),
        ("---\nstatus: Moved to production\n---\n", "moved to production"),
        ("---\nsuccessor: '[[George VI]]'\nmoved_to: Berlin\n---\n", ""),
        ("---\nsuperseded_by: not yet decided\ndeprecated: not yet\n---\n", ""),
        (
            "---\nexpires: never, since 2020-01-01\nexpiry: 90 days after 2026-01-01\n---\n",
            "",
        ),
        ("---\nexpires: 2026-00-10\n---\n", ""),
        ("# A\n\nText.\n\nDeprecated.\n", ""),
        ("# A\n\n## One\n\nText.\n\n## Two\n\nDeprecated.\n", ""),
    ],
)
def test_other_text_is_no_retirement(text: str, status: str) -> None:
    assert validity(text) == (status, "", [])


@pytest.mark.parametrize(
    "text",
    [
        "---\nsupersedes: [1, 2]\n---\n",
        "# A\n\nObsoletes: 1, 2\n",
        "# A\n\n## Status\n\nSupersedes 1 and 2.\n",
    ],
)
def test_predecessors_are_read(text: str) -> None:
    assert validity(text) == ("", "", [("predecessor", "1"), ("predecessor", "2")])


@pytest.mark.parametrize("key", ["valid_until", "expires", "expiryDate"])
@pytest.mark.parametrize("value", ["2026-01-31T10:00:00Z", "2026-01", "'[[2026-01-31]]'"])
def test_last_day_is_read(key: str, value: str) -> None:
    assert validity(f"---\n{key}: {value}\n---\n") == ("", "2026-01-31", [])


@pytest.mark.parametrize("text", ["# A\n\nStatus: {}\n", "---\ndeprecated: 'x {}'\n---\n"])
def test_a_long_statement_is_read_in_short_time(text: str) -> None:
    before = time.process_time()
    _, _, links = validity(text.format("deprecated by " + "1,:" * 4_000))
    assert len(links) <= 10
    assert time.process_time() - before < 1
