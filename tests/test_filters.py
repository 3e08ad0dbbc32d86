"""Filters typed in a query or passed as arguments, suggested names, and lists of notes."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from fakes import document, memory_snapshot
from folders import open_library, write, write_notes
from thumbindex.errors import UnknownPathError
from thumbindex.library import Library
from thumbindex.mcp.query_reply import reply_query
from thumbindex.mcp.replies import reply_outline
from thumbindex.model import TypedFilter, UnmetFilter
from thumbindex.present.sentences import filter_lines
from thumbindex.query.operators import parse_filters

NOTES = {
    "Areas/plan.md": (
        "---\ntags: [project, café/été]\ndate: 2026-03-01\n---\n# Plan\n\n"
        "The budget of the garden is small.\n"
    ),
    "Areas/old plan.md": (
        "---\ntags: [Project/Old]\ndate: 2020-01-01\n---\n# Old plan\n\n"
        "The budget of the house is large. This is a draft.\n"
    ),
    "Tools/flags.md": (
        "---\ndate: 2024-05-05\n---\n# Flags\n\nRun `java -jar app.jar` where the jar holds the "
        "budget.\n"
    ),
    "Tools/minus.md": "---\ndate: 2023-05-05\n---\n# -budget\n\nA note about nothing at all.\n",
}


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_notes(tmp_path_factory.mktemp("filters") / "vault", NOTES)


@pytest.fixture(scope="module")
def library(vault: Path) -> Iterator[Library]:
    with open_library(vault) as library:
        library.index()
        yield library


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ("tag:project budget", {"plan", "old plan"}),
        ("budget #PROJECT/old", {"old plan"}),
        ("tag:#cafe/ete budget", {"plan"}),
        ("path:tools/ budget", {"flags", "minus"}),
        ("file:flags budget", {"flags"}),
        ('title:"old plan" budget', {"old plan"}),
        ('budget "garden is small"', {"plan"}),
        ("budget -tag:project", {"flags", "minus"}),
        ("budget -draft", {"plan", "flags", "minus"}),
        ('budget -"house is large" -title:flags', {"plan", "minus"}),
        ("budget tag:project -draft", {"plan"}),
    ],
)
def test_typed_filter_narrows_a_query(library: Library, query: str, paths: set[str]) -> None:
    answer = library.query(query, limit=10)
    assert {
        passage.path.rpartition("/")[2].removesuffix(".md") for passage in answer.passages
    } == paths
    assert answer.query == query
    assert answer.filters


@pytest.mark.parametrize(
    "query",
    [
        "#include <budget>",
        "# budget",
        "tar -xzf budget",
        "java -jar",
        "budget - draft",
        "re: project",
        "http://project.example/tag:project",
        "budget-draft",
        "`tag:project` budget",
        "[[Plan -draft]]",
        "budget\n-draft\n#project",
        "-budget",
        "grep -lookbehind src/app",
        'add "$( --draft)" to the budget',
        'budget "no such phrase"',
    ],
)
def test_ordinary_query_has_no_filters(library: Library, query: str) -> None:
    assert library.query(query).filters == ()


def test_query_of_filters_only_lists_notes_newest_first(library: Library) -> None:
    answer = library.query("-tag:project/old", limit=2)
    assert [passage.path for passage in answer.passages] == ["Areas/plan.md", "Tools/flags.md"]
    assert (answer.found, answer.confidence_level, answer.listed) == (True, "high", 3)


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ("-draft", ["Areas/plan.md", "Tools/flags.md", "Tools/minus.md"]),
        ('-"house is large"', ["Areas/plan.md", "Tools/flags.md", "Tools/minus.md"]),
        ("-garden -lookbehind -draft", ["Tools/flags.md", "Tools/minus.md"]),
    ],
)
def test_query_of_exclusions_only_lists_the_remaining_notes(
    library: Library, query: str, paths: list[str]
) -> None:
    answer = library.query(query)
    assert ([passage.path for passage in answer.passages], answer.listed) == (paths, len(paths))


@pytest.mark.parametrize(
    ("query", "left_out"),
    [("garden -lookbehind", "lookbehind"), ('garden -"oat milk"', "oat milk")],
)
def test_excluding_an_absent_word_changes_nothing(
    library: Library, query: str, left_out: str
) -> None:
    answer, plain = library.query(query), library.query("garden")
    assert answer.filters == (TypedFilter("words", left_out, excludes=True),)
    assert [(passage.path, passage.score) for passage in answer.passages] == [
        (passage.path, passage.score) for passage in plain.passages
    ]


def test_missing_phrase_is_reported_and_searched_as_words(
    library: Library,
) -> None:
    answer = library.query('budget "no such phrase"')
    assert (answer.filters, answer.unmet) == (
        (),
        (UnmetFilter("words", "no such phrase", as_words=True),),
    )
    assert filter_lines((), answer.unmet, 0) == [
        'No passage contains "no such phrase". It was searched for as words.'
    ]


def test_duplicate_filters_count_once_and_sixteen_at_most() -> None:
    snapshot = memory_snapshot([document(f"{n}.md", f"# N{n}", tags=(f"t{n}",)) for n in range(20)])
    parsed = parse_filters(" ".join(["tag:t0"] * 30 + [f"tag:t{n}" for n in range(20)]), snapshot)
    assert [filter_.value for filter_ in parsed.filters] == [f"t{n}" for n in range(16)]
    assert parsed.text == "tag:t16 tag:t17 tag:t18 tag:t19"
    assert (
        parse_filters("tag:t30 tag:t30", snapshot).unmet == parse_filters("tag:t30", snapshot).unmet
    )


def test_note_with_a_name_like_a_filter_is_found(library: Library) -> None:
    assert library.query("-budget").passages[0].path == "Tools/minus.md"


def test_unknown_tag_suggests_names_and_is_searched_as_words(library: Library) -> None:
    answer = library.query("budget tag:projct")
    assert answer.unmet == (
        UnmetFilter("tag", "projct", ("project", "Project/Old"), as_words=True),
    )
    assert not answer.filters


def test_unknown_tag_alone_finds_nothing_and_suggests_names(library: Library) -> None:
    answer = library.query("tag:projct")
    assert (answer.found, answer.passages, answer.filters) == (
        False,
        (),
        (TypedFilter("tag", "projct"),),
    )
    assert answer.unmet[0].nearest[0] == "project"


def test_unknown_tag_or_path_argument_suggests_names(library: Library) -> None:
    assert library.query("budget", tag=["#projct"]).unmet[0].nearest[0] == "project"
    assert library.query("budget", path=["Area/**"]).unmet == (
        UnmetFilter("path", "Area/**", ("Areas/",)),
    )
    assert library.query("budget", tag=["project"], path=["Areas/**"]).unmet == ()


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("Tools", ["Tools/flags.md"]),
        ("flags.md", ["Tools/flags.md"]),
        ("Tools/flags.md", ["Tools/flags.md"]),
        ("/flags.md", []),
        ("flag", []),
    ],
)
def test_path_without_a_glob_is_a_name_of_a_note_or_directory(
    library: Library, name: str, paths: list[str]
) -> None:
    answer = library.query("jar budget", path=[name], limit=1)
    assert [passage.path for passage in answer.passages] == paths


def test_tag_of_a_newly_private_note_is_not_suggested(vault: Path) -> None:
    secret = vault.parent / "other" / "secret.md"
    secret.parent.mkdir()
    secret.write_text("# Secret\n\n#layoffs next week.\n", encoding="utf-8")
    with open_library(secret.parent, index=vault.parent / "other-index") as library:
        library.index()
        assert library.listing(tag=["layoff"]).unmet[0].nearest == ("layoffs",)
        secret.write_text(
            "---\nprivate: true\n---\n# Secret\n\n#layoffs next week.\n", encoding="utf-8"
        )
        assert library.query("tag:layoff").unmet[0].nearest == ()
        assert library.listing(tag=["layoff"]).unmet[0].nearest == ()


@pytest.mark.parametrize(
    ("query", "private", "public"),
    [
        ("project:[[Plans]]", {"project": "[[Acme Takeover/Plan]]"}, {"project": "[[Plan]]"}),
        ("due:2027", {"due": "2026"}, {"due": "2026-05-02"}),
        ("tag:plann", {"tags": "Plan"}, {"tags": "plan"}),
        ("path:acme/plann.md", {}, {}),
    ],
)
def test_suggestions_have_only_what_a_visible_note_says(
    tmp_path: Path, query: str, private: dict[str, str], public: dict[str, str]
) -> None:
    notes = {"acme/plan.md": private, "clients/acme/plan.md": public}
    texts = {
        path: "".join(["---\n", *(f"{key}: '{text}'\n" for key, text in of.items()), "---\n# X\n"])
        for path, of in notes.items()
    }
    root = write_notes(tmp_path / "vault", texts)
    with open_library(root) as library:
        library.index()
        hidden = texts["acme/plan.md"].replace("---\n", "---\nprivate: true\n", 1)
        (root / "acme" / "plan.md").write_text(hidden, encoding="utf-8")
        suggested = library.query(f"budget {query}").unmet[0].nearest
        (root / "acme" / "plan.md").unlink()
        library.index()
        visible = library.query(f"budget {query}").unmet
        assert set(suggested) <= {name for unmet in visible for name in unmet.nearest}


def test_newly_private_note_is_hidden_before_the_next_run(
    tmp_path: Path,
) -> None:
    secret, spring = tmp_path / "vault/secret plan.md", date(2026, 3, 1)
    secret.parent.mkdir()
    secret.write_text("# Secret plan\n\nThe #layoffs.\n", encoding="utf-8")
    secret.with_name("open.md").write_text(
        "---\ndate: 2026-05-01\n---\n# Open\n\n[x](secret%20plan.md)\n", encoding="utf-8"
    )
    with open_library(secret.parent) as library:
        library.index()

        def outputs() -> list[object]:
            texts = ("secret plan", "the layoffs", "tag:layoffs", "path:.md")
            answers = [
                library.query(text, explain=explain) for text in texts for explain in (False, True)
            ]
            answers += [
                library.query("the plan", since=spring),
                library.query("plan", path=["secret plam"]),
                library.query('path:"secret plam"'),
            ]
            answer_fields = [
                (answer.passages, answer.undated, answer.listed, answer.unmet, answer.trace)
                for answer in answers
            ]
            lists = [
                library.listing(tag=["layoffs"]),
                library.listing(since=spring),
                library.listing(path=["secret plam"]),
                library.listing(),
            ]
            return [*answer_fields, *lists, library.outline(), library.related("open.md").links]

        assert [at for at, output in enumerate(outputs()) if "secret plan" not in repr(output)] == [
            8,
            12,
        ]
        assert library.query("path:.md").listed == 2
        secret.write_text(
            "---\nprivate: true\n---\n# Secret plan\n\nThe #layoffs.\n", encoding="utf-8"
        )
        assert [output for output in outputs() if "secret plan" in repr(output)] == []
        # the open note's own words, as if nothing were there
        assert library.related("open.md").dangling == ("secret plan.md",)
        assert library.query("path:.md").listed == 1
        assert (library.listing(since=spring).undated, len(library.listing().notes)) == (0, 1)
        assert library.listing(tag=["layoffs"]).unmet == (UnmetFilter("tag", "layoffs"),)
        with pytest.raises(UnknownPathError):
            library.read("secret plan.md")


def test_only_suggests_no_tag_of_another_folder(tmp_path: Path) -> None:
    for name, tag in (("mine", "holiday"), ("theirs", "salaries")):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "note.md", f"# Note\n\nAbout #{tag}.\n")
    with open_library(tmp_path / "mine", tmp_path / "theirs") as both:
        both.index()
        mine = both.only({"mine"})
        assert both.query("tag:salary").unmet[0].nearest == ("salaries",)
        assert mine.query("tag:salary").unmet[0].nearest == ()
        assert [note.folder for note in mine.listing().notes] == ["mine"]


def test_date_filter_counts_undated_notes(
    tmp_path: Path,
) -> None:
    notes = {
        "dated.md": "---\ndate: 2026-01-01\n---\n# Dated\n\nThe budget.",
        "plain.md": "# Plain\n\nThe budget.",
        "bare.md": "# Bare\n\nTea.",
    }
    with open_library(write_notes(tmp_path / "vault", notes)) as library:
        library.index()
        answer, notes = (
            library.query("the budget", since=date(2020, 1, 1)),
            library.listing(since=date(2020, 1, 1)),
        )
        assert ([passage.path for passage in answer.passages], answer.undated) == (["dated.md"], 2)
        assert ([note.path for note in notes.notes], notes.undated) == (["dated.md"], 2)
        assert library.query("the budget").undated == 0


def test_mcp_answer_has_dates_of_passages(
    library: Library,
) -> None:
    reply = reply_query(library, {"query": "budget of the garden"})
    days = {result["citation"]: result["date"] for result in reply.structured["results"]}
    assert [day for citation, day in days.items() if citation.startswith("Areas/plan.md")] == [
        "2026-03-01"
    ]
    assert "\n(dated 2026-03-01)\n" in reply.text
    entries = reply_outline(library, {"tag": ["project"]}).structured["entries"]
    assert [entry["date"] for entry in entries] == ["2026-03-01", "2020-01-01"]


def test_why_names_the_typed_filter_that_excludes_a_note(library: Library) -> None:
    report = library.why("Tools/flags.md", "budget tag:project")
    assert (report.outcome, report.query) == ("filtered", "budget tag:project")
    assert "the filter `tag:project`" in report.reason
