"""The commands about notes and links."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from folders import write_notes
from notes import write
from schemas import checked
from thumbindex.library import Library
from thumbindex.opening import OpenOptions
from thumbindex.text import text_digest

NOTES = {
    "tea.md": (
        "# Tea\n\nGreen or black. See [[brewing#Water|how]] and [[milk]].\n\n## Storage\n\n"
        "Dry and dark.\n\n## Other\n\nMore.\n"
    ),
    "how/brewing.md": (
        "---\ntags: [kitchen]\n---\n# Brewing\n\n## Water\n\n"
        "Back to [tea](../tea.md), not to ![[lemon]] or [cups](cups.md).\n"
    ),
    "how/index.md": "# How\n\nNothing links here but [itself](index.md).\n",
    "why/index.md": (
        "---\ntitle: Why that is so\naliases: [reasons]\n---\n\n#kitchen\n\nSee [[how/index]].\n"
        "## The deeper *why*!\n"
    ),
}

Run = Callable[..., Result]


@pytest.fixture
def kitchen(tmp_path: Path) -> Path:
    return write_notes(tmp_path / "kitchen", NOTES)


@pytest.fixture
def run(kitchen: Path, run_in: Run) -> Run:
    return lambda *arguments: run_in(kitchen, *arguments)


def test_read_prints_a_note_a_section_or_lines(run: Run) -> None:
    assert (
        run("read", "how/index.md").stdout
        == f"how/index.md (lines 1-3 of 3)\n\n{NOTES['how/index.md']}"
    )
    assert (
        run("read", "tea.md#Storage").stdout
        == "tea.md (lines 5-8 of 11)\n\n## Storage\n\nDry and dark.\n\n"
    )
    assert (
        checked(run("read", "tea.md:5-7", "--json"), "read")["text"]
        == "## Storage\n\nDry and dark."
    )


@pytest.mark.parametrize(
    ("citation", "path", "lines"),
    [
        ("tea", "tea.md", (1, 11)),
        ("Brewing", "how/brewing.md", (1, 8)),
        ("tea.md#Storage (line 7)", "tea.md", (7, 7)),
        ("tea.md:5-7", "tea.md", (5, 7)),
        ("## 1. kitchen: tea.md#Storage (lines 5-7)", "tea.md", (5, 7)),
        ("`tea.md#Storage`", "tea.md", (5, 8)),
        ("tea.md (0.83)", "tea.md", (1, 11)),
        ("Tea > Storage", "tea.md", (5, 8)),
        ("reasons", "why/index.md", (1, 9)),
        ("Why that is so > the-deeper-why", "why/index.md", (9, 9)),
        ("[[brewing#Water|how]]", "how/brewing.md", (6, 8)),
    ],
)
def test_read_accepts_citations(run: Run, citation: str, path: str, lines: tuple[int, int]) -> None:
    excerpt = checked(run("read", citation, "--json"), "read")
    assert (excerpt["path"], (excerpt["start_line"], excerpt["end_line"])) == (path, lines)
    assert json.loads(run("outline", citation, "--json").stdout)["entries"][0]["path"] == path
    assert checked(run("related", citation, "--json"), "related")["path"] == path


@pytest.mark.parametrize(
    "argument",
    ["./brewing.md", "../how/brewing.md (lines 6-8)", "ABSOLUTE:6"],
)
def test_read_accepts_relative_and_absolute_paths(
    run: Run, kitchen: Path, monkeypatch: pytest.MonkeyPatch, argument: str
) -> None:
    write(kitchen / "more/brewing.md", "# Another\n")
    monkeypatch.chdir(kitchen / "how")
    argument = argument.replace("ABSOLUTE", str(kitchen / "how/brewing.md"))
    assert json.loads(run("read", argument, "--json").stdout)["path"] == "how/brewing.md"
    assert run("outline", ".").stdout == "brewing.md - Brewing\nindex.md - How\n"


def test_path_from_the_current_directory_wins_over_the_folder(
    run: Run, kitchen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(kitchen / "how/tea.md", "# Another tea\n")
    monkeypatch.chdir(kitchen / "how")
    assert json.loads(run("read", "tea.md", "--json").stdout)["path"] == "how/tea.md"
    assert json.loads(run("read", "../tea.md", "--json").stdout)["path"] == "tea.md"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("read", "index"),
            (
                "'index' is the name of several documents: how/index.md, why/index.md. Give the "
                "path of one."
            ),
        ),
        (("read", "why"), "'why' is a directory: `outline` lists the documents in it."),
        (("read", "tae.md"), "No note 'tae.md' in the index. Nearest: tea.md."),
        (("read", "tea.md#Strage"), "tea.md has no heading 'Strage'. Nearest: Storage."),
        (
            ("read", "tea.md:99"),
            "tea.md has 11 lines: 99 to 99 is not a valid range.",
        ),
        (("read", "../secret.md"), "No note '../secret.md' in the index."),
    ],
)
def test_wrong_usage_is_reported_in_one_sentence(
    run: Run, kitchen: Path, arguments: tuple[str, ...], says: str
) -> None:
    write(kitchen.parent / "secret.md", "# Secret\n")
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


def test_id_finds_its_text_after_a_move(run: Run, kitchen: Path) -> None:
    passage = json.loads(run("query", "green or black", "--json").stdout)["results"][0]
    digest = text_digest(passage["text"])
    for citation in (digest, f"id {digest}"):
        excerpt = checked(run("read", citation, "--json"), "read")
        assert (excerpt["path"], excerpt["text"]) == ("tea.md", passage["text"])
    (kitchen / "tea.md").rename(kitchen / "cellar.md")
    assert checked(run("related", digest, "--json"), "related")["path"] == "cellar.md"
    write(kitchen / "cellar.md", "---\nprivate: true\n---\n" + NOTES["tea.md"])
    for never_there in (digest, "0123abcd"):
        assert (
            run("read", never_there)
            .stderr.splitlines()[-1]
            .startswith(f"No passage has the id {never_there}:")
        )


def test_name_wins_over_an_id(run: Run, kitchen: Path) -> None:
    write(kitchen / "20260131.md", "# A day\n")
    assert json.loads(run("read", "20260131", "--json").stdout)["path"] == "20260131.md"


def test_read_prints_several_notes_and_reports_missing_ones(
    run: Run,
) -> None:
    result = run("read", "tea.md#Storage", "brewing.md:6", "tae.md", "tea.md#Storage")
    assert result.exit_code == 2
    assert result.stdout == (
        "tea.md (lines 5-8 of 11)\n\n## Storage\n\nDry and dark.\n\n\n"
        "how/brewing.md (line 6 of 8)\n\n## Water\n"
    )
    assert (
        result.stderr.splitlines()[-1] == "tae.md: No note 'tae.md' in the index. Nearest: tea.md."
    )
    payload = checked(run("read", "tea.md#Storage", "brewing.md:6", "tae.md", "--json"), "read")
    assert ([note["path"] for note in payload["notes"]], list(payload["errors"])) == (
        ["tea.md", "how/brewing.md"],
        ["tae.md"],
    )


def test_same_path_in_two_folders_is_distinguished_by_folder(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "bar/tea.md", "# Bar tea\n")
    both = ("--folder", str(tmp_path / "bar"))
    assert "several documents: bar: tea.md, kitchen: tea.md" in run("read", "tea.md", *both).stderr
    assert json.loads(run("read", "bar: tea.md", "--json", *both).stdout)["folder"] == "bar"
    assert "bar: tea.md - Bar tea\n" in run("outline", *both).stdout


def test_outline_covers_a_note_a_directory_or_everything(run: Run) -> None:
    assert (
        run("outline", "tea.md").stdout
        == "tea.md - Tea\n- Tea (line 1)\n  - Storage (line 5)\n  - Other (line 9)\n"
    )
    assert (
        run("outline", "how").stdout
        == run("outline", "how/").stdout
        == "how/brewing.md - Brewing\nhow/index.md - How\n"
    )
    assert [
        entry["path"] for entry in checked(run("outline", "--json"), "outline")["entries"]
    ] == sorted(NOTES)


def test_related_lists_links_backlinks_and_similar_notes(
    run: Run, kitchen: Path, tmp_path: Path
) -> None:
    lines = [
        "tea.md",
        "Links to",
        "  how/brewing.md",
        "Linked from",
        "  how/brewing.md",
        "Links that lead nowhere",
        "  milk",
        "Most similar",
    ]
    again = f"thumbindex index --folder {kitchen} --index {tmp_path / 'index'} --complete"
    assert run("related", "tea.md").stdout.splitlines() == [
        *lines,
        f"  none yet: run `{again}`",
    ]
    run("index", "--complete")
    similar = checked(run("related", "tea.md", "--json"), "related")["similar"]
    assert {note["path"] for note in similar} == NOTES.keys() - {"tea.md"}


def test_broken_links_are_listed_with_their_lines(
    run: Run, kitchen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(kitchen)
    result = run("broken")
    links = [
        "how/brewing.md:8  ![[lemon]]  missing note",
        "how/brewing.md:8  [cups](cups.md)  missing note",
        "tea.md:3  [[milk]]  missing note",
    ]
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        [*links, "3 broken links in 2 notes"],
    )
    broken = checked(run("broken", "--tag", "kitchen", "--path", "how/**", "--json"), "broken")[
        "links"
    ]
    assert [(link["path"], link["line"], link["target"]) for link in broken] == [
        ("how/brewing.md", 8, "lemon"),
        ("how/brewing.md", 8, "cups.md"),
    ]


def test_no_broken_links_exit_with_code_0(run: Run) -> None:
    result = run("broken", "--path", "why/**")
    assert (result.exit_code, result.stdout) == (0, "No broken links.\n")
    none = run("broken", "--tag", "kichen")
    assert (none.exit_code, none.stdout) == (
        0,
        "No note has the tag #kichen: nearest is #kitchen.\nNo broken links.\n",
    )


def test_unlinked_lists_similar_pairs_without_links(
    tmp_path: Path, run_in: Callable[..., Result]
) -> None:
    words = "water boil cup leaf kettle pour slowly"
    for name in ("brew", "pour", "steep"):
        write(tmp_path / "tea" / f"{name}.md", f"# {name}\n\n{words} {name}\n")
    payload = checked(run_in(tmp_path / "tea", "unlinked", "--limit", "2", "--json"), "unlinked")
    assert (len(payload["pairs"]), payload["left_out"]) == (2, 1)
    first, second = payload["pairs"]
    assert first["score"] >= second["score"]
    assert run_in(tmp_path / "tea", "unlinked", "--limit", "1").stdout.splitlines() == [
        f"{first['score']:.2f}  {first['path']} - {first['other']}",
        "and 2 more pairs (--limit)",
    ]


def test_orphans_lists_notes_without_incoming_links(run: Run) -> None:
    result = run("orphans")
    assert (result.exit_code, result.stdout) == (
        0,
        "no date     why/index.md - Why that is so #kitchen\n1 note that no other note links to\n",
    )
    assert [note["path"] for note in checked(run("orphans", "--json"), "list")["notes"]] == [
        "why/index.md"
    ]
    none = run("orphans", "--path", "how/**")
    assert (none.exit_code, none.stdout) == (0, "No orphans.\n")


def test_private_note_is_never_a_source_target_or_name(run: Run, kitchen: Path) -> None:
    write(
        kitchen / "milk.md",
        "---\naliases: [cow]\n---\n# The milk #private\n\nSee [[why/index]] and [[nowhere]].\n",
    )
    for command in (
        "milk",
        "milk.md",
        "kitchen: milk.md",
        "milk.md (line 1)",
        "cow",
        "The milk",
        "cow > Far",
        "## 1. milk.md",
    ):
        error = run("read", command).stderr
        assert "No note" in error or "milk.md is private" in error
    assert "tea.md:3  [[milk]]  private note" in run("broken").stdout
    assert "nowhere" not in run("broken").stdout
    assert "why/index.md" in run("orphans").stdout


def test_newly_private_note_has_no_links_in_either_direction(
    kitchen: Path, tmp_path: Path, open_fake: Callable[[OpenOptions], Library]
) -> None:
    with open_fake(OpenOptions((str(kitchen),), tmp_path / "index")) as library:
        library.index(complete=False)
        write(
            kitchen / "how/brewing.md",
            "---\nprivate: true\n---\n# Brewing\n\n[tea](../tea.md) ![[lemon]]\n",
        )
        assert [link.written for link in library.broken().links] == [
            "[[brewing#Water]]",
            "[[milk]]",
        ]
        assert {note.path for note in library.orphans().notes} == {"tea.md", "why/index.md"}


def test_new_note_can_be_read_at_once(run: Run, kitchen: Path) -> None:
    run("index", "--complete")
    write(kitchen / "milk.md", "# Milk\n")
    assert run("read", "milk").stdout == "milk.md (line 1 of 1)\n\n# Milk\n"
    assert "[[milk]]" not in run("broken").stdout


def test_escape_sequences_in_notes_never_reach_the_terminal(run: Run, kitchen: Path) -> None:
    write(kitchen / "evil.md", "# Evil\n\n\x1b]0;owned\x07 [[x\x1b[2J]]\n")
    for command in (("read", "evil"), ("outline", "evil"), ("related", "evil"), ("broken",)):
        assert "\x1b" not in run(*command).stdout
