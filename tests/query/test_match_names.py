"""The stage match_names puts the notes that the query names first."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date, timedelta

import pytest

from fakes import FakeEmbedder, MemoryCatalog, document, memory_snapshot
from thumbindex.index.names import documents_by_name
from thumbindex.model import DocumentId, Filters, NameKind, ParsedDocument, Query
from thumbindex.query.match_names import find_by_date, name_distance

LOUD = "Settings Überblick café setup: settings überblick café setup and settings again."
NOTES = [
    document(
        "Guides/Über uns.md",
        "# Über uns — das Café\n\nText.\n\n## Opening hours?\n\nAt nine.",
        aliases=("The Team", "café"),
    ),
    document("Settings.md", "# Settings\n\nPress the gear."),
    document("loud.md", f"# Loud\n\n{LOUD}\n\n## Loud settings\n\n{LOUD}"),
    document("other.md", "# Other\n\nThe settings of the team are set on the page about us."),
]


def paths(answer) -> list[str]:
    return [passage.path for passage in answer[0].passages]


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("Guides/Über uns.md", NameKind.PATH),
        ("./Guides/Uber uns.md", NameKind.PATH),
        ("UBER UNS", NameKind.FILE),
        (" “über-uns”! ", NameKind.FILE),
        ("Über uns - das Cafe!", NameKind.TITLE),
        ("the team", NameKind.ALIAS),
        ("[[Über uns]]", NameKind.FILE),
        ("[[Guides/Über uns#Opening hours?|when]]", NameKind.PATH),
        ("[us](Guides/%C3%9Cber%20uns.md)", NameKind.PATH),
        ("opening hours", NameKind.HEADING),
    ],
)
@pytest.mark.parametrize("embedder", [None, FakeEmbedder()], ids=["words only", "vectors"])
def test_name_in_any_form_puts_note_first_with_high_confidence(ask, query, kind, embedder) -> None:
    search, trace = ask(NOTES, query, embedder=embedder)
    first = search.candidates[0]
    assert (search.passages[0].path, search.confidence_level, first.name_kind) == (
        "Guides/Über uns.md",
        "high",
        kind,
    )
    assert "match_names" in [step.stage for step in trace]


DAILY = [
    document("daily/2026-01-06.md", "# Tuesday\n\nHeadache. Called the landlord."),
    document("daily/2026_01_07.md", "# Wednesday\n\nNitrate was too high."),
    document("daily/Jan 8th, 2026.md", "# Thursday\n\nNothing."),
    *(
        document(
            f"what happened {n}.md",
            f"# What happened\n\nWhat happened on day {n} of January 2026, and what I did.",
        )
        for n in range(6)
    ),
]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("what happened on 2026-01-06?", "daily/2026-01-06.md"),
        ("what happened on 6 January 2026?", "daily/2026-01-06.md"),
        ("what happened on January 7, 2026", "daily/2026_01_07.md"),
        ("what happened on Jan 8th, 2026", "daily/Jan 8th, 2026.md"),
    ],
)
@pytest.mark.parametrize("embedder", [None, FakeEmbedder()], ids=["words only", "vectors"])
def test_day_in_question_puts_daily_note_first(ask, query: str, path: str, embedder) -> None:
    search = ask(DAILY, query, embedder=embedder)[0]
    assert (
        search.passages[0].path,
        search.found,
        search.candidates[0].name_kind,
        search.confidence < 1,
    ) == (path, True, None, True)


MONTHLY = [
    document("months/2026-january.md", "# January\n\nMoved to the coast."),
    document("months/2026-02.md", "# The short one\n\nSnow at last."),
    document("months/März 2026.md", "# Dritter\n\nTulpen gesetzt."),
    *(
        document(
            f"looking back {n}.md",
            f"# Looking back at {n}\n\nWhat I did in January {n}, in February {n} and in "
            f"March {n}.",
        )
        for n in range(2019, 2027)
    ),
]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("January 2026 look back", "months/2026-january.md"),
        ("2026-01: what did I do", "months/2026-january.md"),
        ("was war im März 2026", "months/März 2026.md"),
        ("march 2026", "months/März 2026.md"),
    ],
)
def test_month_in_question_puts_monthly_note_first(ask, query: str, path: str) -> None:
    search = ask(MONTHLY, query)[0]
    assert (search.passages[0].path, search.found) == (path, True)


@pytest.mark.parametrize("day", ["2026-03-09", "March 9, 2026"])
def test_notes_of_a_day_are_ordered_by_query_words(ask, day: str) -> None:
    notes = [
        document("2026-03-09.md", "# Monday\n\nRain."),
        document("2026-03-09 Standup.md", "# Standup\n\nThe release waits."),
        document("2026-03-09 call.md", "# Call\n\nWith the landlord."),
        *(
            document(
                f"standup {n}.md",
                f"# Standup {n}\n\nStandup of March {n}, 2026, on the standup itself.",
            )
            for n in range(10, 20)
        ),
    ]
    found_paths = [
        [passage.path for passage in ask(notes, f"{text} on {day}")[0].passages[:3]]
        for text in ("standup", "what happened")
    ]
    assert found_paths[0][0] == "2026-03-09 Standup.md"
    assert set(found_paths[1]) == {note.document.path for note in notes[:3]}


def notes_of_date(query: str, notes: Sequence[ParsedDocument]) -> Collection[DocumentId]:
    return find_by_date(query, MemoryCatalog(notes)).keys()


@pytest.mark.parametrize(
    "query",
    [
        "what happened from 2026-01-06 to 2026-01-07",
        "what happened on 2026-01-09",
        "between 5 and 6 January 2026",
        "30 february 2026",
        "RFC 2026 march of time",
        "version 12.2026-01",
    ],
)
def test_ambiguous_or_invalid_dates_match_no_note(
    query: str,
) -> None:
    assert not notes_of_date(query, [*DAILY, *MONTHLY])


@pytest.mark.parametrize(
    "query",
    [
        "2026年1月6日发生了什么事情",
        "please tell me what exactly happened to me on 2026-01-06 and why",
    ],
)
def test_day_in_long_question_puts_daily_note_first(ask, query: str) -> None:
    assert ask(DAILY, query, embedder=FakeEmbedder())[0].passages[0].path == "daily/2026-01-06.md"


def test_common_word_as_name_keeps_other_pages(ask) -> None:
    on, off = (
        ask(NOTES, "settings", embedder=FakeEmbedder(), off=name) for name in ("", "match_names")
    )
    assert (paths(on)[0], paths(off)[0]) == ("Settings.md", "loud.md")
    assert set(paths(on)) == set(paths(off))


@pytest.mark.parametrize(
    "query", ["how do I change the settings", "Über uns and them", "settings loud"]
)
def test_name_inside_question_is_not_a_match(ask, query) -> None:
    assert all(candidate.name_kind is None for candidate in ask(NOTES, query)[0].candidates)


def test_name_kinds_are_ordered(ask) -> None:
    notes = [
        document("a.md", "# A\n\n## Plan\n\nOne."),
        document("b.md", "# Plan\n\nTwo."),
        document("c.md", "# C\n\nThree.", aliases=("plan",)),
        document("sub/plan.md", "# D\n\nFour."),
        document("plan.md", "# E\n\nFive."),
        document("z.md", "# Z\n\nPlan, plan and plan."),
    ]
    assert paths(ask(notes, "Plan")) == ["plan.md", "sub/plan.md", "b.md", "c.md", "a.md", "z.md"]


def test_all_notes_with_the_name_come_first(ask) -> None:
    notes = [
        document(f"{n}/Meeting.md", f"# Meeting\n\nAgenda.\n\nTopic {word}.")
        for n, word in enumerate(("oak", "elm", "fir"))
    ]
    found_paths = paths(
        ask(
            [*notes, document("x.md", "# X\n\nMeeting, meeting, meeting.")],
            "meeting",
            embedder=FakeEmbedder(),
        )
    )
    assert (sorted(found_paths[:3]), found_paths[3:]) == (
        ["0/Meeting.md", "1/Meeting.md", "2/Meeting.md"],
        ["x.md"],
    )


@pytest.mark.parametrize(("count", "named"), [(3, True), (4, False)])
def test_heading_matches_if_at_most_three_notes_have_it(ask, count, named) -> None:
    notes = [
        document(f"{n}.md", f"# N{n}\n\nText {n}.\n\n## Improvements\n\nFaster {n}.")
        for n in range(count)
    ]
    search, _ = ask(notes, "improvements")
    assert any(candidate.name_kind for candidate in search.candidates) is named


@pytest.mark.parametrize("name", ["C", "C++", "C#"])
def test_names_with_different_symbols_are_distinct(ask, name) -> None:
    notes = [
        document(f"{n}.md", f"# {title}\n\nA language called C, C++ or C#.")
        for n, title in enumerate(("C", "C++", "C#"))
    ]
    search, _ = ask(notes, name)
    assert [
        search.passages[0].title,
        *(candidate.name_kind for candidate in search.candidates[1:]),
    ] == [
        name,
        None,
        None,
    ][: len(search.candidates)]


@pytest.mark.parametrize("name", ["???", "🌱", "+"])
def test_name_of_symbols_matches(ask, name) -> None:
    search, _ = ask([*NOTES, document("signs.md", "Roots and leaves.", title=name)], name)
    assert (paths((search,))[0], search.found, search.confidence_level) == (
        "signs.md",
        True,
        "high",
    )


@pytest.mark.parametrize(
    ("typed", "name", "same"),
    [
        ("Cafe\u0301", "Café", 0),
        ("cafe", "Café", 1),
        ("strasse", "Straße", 0),
        ("rerender", "Re-render", 1),
        ("whats new", "What's new?", 1),
        ("v1.13.2", "v1-13-2", 1),
        ("1.1.1", "1.11", None),
        ("C", "C++", None),
        ("ガラス", "カラス", None),
        ("각", "가", None),
        ("елка", "ёлка", 1),
        ("", "!", None),
        ("?", "!", None),
    ],
)
def test_name_distance_compares_letters(typed, name, same) -> None:
    assert name_distance(typed, name) == same
    assert name_distance(name, typed) == same


def test_name_match_is_not_replaced_by_copy(ask, with_duplicates) -> None:
    text = (
        "Files are kept on every device that you own, for thirty days, and nobody else can read "
        "them there."
    )
    notes = [
        document("copy.md", f"# Copy\n\n{text}"),
        document("Retention.md", f"# Retention\n\n{text}"),
        document("new.md", f"# N\n\n{text}", date="2026-01-01"),
    ]
    snapshot = with_duplicates(
        memory_snapshot(notes, FakeEmbedder()), copies={0: (1, 2), 1: (0, 2), 2: (0, 1)}
    )
    for off in ("", "dedup_known", "dedup_known dedup_hash"):
        first = ask(
            snapshot,
            "retention",
            embedder=FakeEmbedder(),
            off=off,
            confidence={"minimum_relevance": 0.0},
        )[0].passages[0]
        assert (first.path, sorted(place.path for place in first.also_in)) == (
            "Retention.md",
            ["copy.md", "new.md"],
        )


def test_filters_apply_to_name_matches(ask) -> None:
    query = Query("Settings", filters=Filters(path=("other.md", "loud.md"), since=date(1970, 1, 1)))
    assert "Settings.md" not in paths(ask(NOTES, query))


@pytest.mark.parametrize("query", ["2026-02-05", "Daily/2026-02-05", "2026-02-05.md"])
def test_missing_daily_note_gives_low_confidence(ask, query) -> None:
    days = [f"{date(2026, 1, 1) + timedelta(days=n)}" for n in range(60)]
    notes = [
        document(f"Daily/{day}.md", f"# {day}\n\nMet Ada.") for day in days if day != "2026-02-05"
    ]
    assert ask(notes, query)[0].confidence_level == "low"
    assert (
        ask([*notes, document("a.md", "# Ada\n\nMet on 2026-02-05.")], "2026-02-05")[0]
        .passages[0]
        .path
        == "a.md"
    )
    assert ask(notes, query.replace("02-05", "02-06"))[0].confidence_level == "high"


def test_name_is_not_corrected(ask) -> None:
    notes = [
        document("a.md", "# Deployment\n\nDeployment deployment."),
        document("deploymant.md", "# X\n\nOther words."),
    ]
    search, _ = ask(notes, "deploymant")
    assert (search.text, paths((search,))[0]) == ("deploymant", "deploymant.md")


def test_lookup_of_common_name_takes_linear_time() -> None:
    note = document("README.md", "# Read me").document
    names = documents_by_name([replace(note, path=f"{n}/README.md") for n in range(40_000)])
    started = time.process_time()
    assert len(names["readme"]) == 40_000
    assert time.process_time() - started < 5  # quadratic time is half a minute


@pytest.mark.parametrize(
    "query", ["[[Über uns#Opening hours?]]", "Guides/Über uns.md#opening-hours", "Opening hours"]
)
def test_named_heading_is_the_shown_section(ask, query) -> None:
    assert ask(NOTES, query)[0].passages[0].heading_path[-1] == "Opening hours?"


def test_older_version_named_by_path_is_shown(ask) -> None:
    notes = [
        document(f"{n}/sync.md", f"# Sync\n\nSync keeps vaults equal since version {n} of the app.")
        for n in ("5.1", "7.6")
    ]
    assert paths(ask(notes, "5.1/sync.md"))[0] == "5.1/sync.md"
    assert paths(ask(notes, "sync")) == ["7.6/sync.md"]
