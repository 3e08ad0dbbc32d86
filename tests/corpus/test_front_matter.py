import pytest

from thumbindex.corpus.front_matter import FrontMatter, read_front_matter
from thumbindex.corpus.parse import parse_document
from thumbindex.settings import CorpusSettings


def read(block: str, mark: str = "---") -> FrontMatter:
    return read_front_matter("a.md", f"{mark}\n{block}\n{mark}\nbody")


def test_the_fields_of_a_full_block_are_found() -> None:
    block = (
        "title: A title\ntags: [one, two/deep]\naliases:\n  - Other name\nkeywords: a, b c\n"
        "summary: Short.\n"
        "author:\n  - Ada\n  - name: Bob\ncategories: [x, y]\ntype: guide\n"
        "related: ['[[Note]]', b.md]"
    )
    found = parse_document("a.md", f"---\n{block}\n---\nbody".encode(), CorpusSettings())
    document = found.document
    assert (document.title, document.tags, document.aliases, document.keywords) == (
        "A title",
        ("one", "two/deep"),
        ("Other name",),
        ("a", "b c"),
    )
    assert (document.description, document.author, document.category, document.type) == (
        "Short.",
        "Ada, Bob",
        "x, y",
        "guide",
    )
    assert [(link.target, link.line) for link in found.links] == [("Note", 13), ("b.md", 13)]


@pytest.mark.parametrize(
    ("block", "tags"),
    [
        ("tags:", ()),
        ("tags: one two", ("one", "two")),
        ("tags: '#one #two/deep'", ("one", "two/deep")),
        ("tags: [one, '#two', one]", ("one", "two")),
        ("tags:\n- 2024\n-\n- true", ("2024", "True")),
        ("tag: one", ("one",)),
    ],
)
def test_tags_are_read_however_they_are_written(block: str, tags: tuple[str, ...]) -> None:
    assert read(block).tags == tags


def test_values_are_json_safe_and_keep_their_type() -> None:
    front = read(
        "a: 1\nb: 1.5\nc: true\nd: 2024-01-05\ne: null\nf: .inf\nl: 1e999\ng: no\n"
        "h: !!python/object:os.system x\ni: '1'\n2: 12:30\n? [k]\n: v"
    )
    assert front.problems == ()
    assert front.fields == {
        **{
            "a": 1,
            "b": 1.5,
            "c": True,
            "d": "2024-01-05",
            "e": None,
            "f": ".inf",
            "l": "1e999",
            "g": "no",
        },
        **{"h": "x", "i": "1", "2": "12:30", "['k']": "v"},
    }


def test_a_yaml_bomb_is_refused_and_its_plain_lines_are_read() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{n}: &{n} [{','.join(['*' + m] * 10)}]\n"
        for m, n in zip("abcdefgh", "bcdefghi", strict=True)
    )
    front = read("title: Still here\n" + bomb)
    assert front.text("title") == "Still here"
    assert [(problem.line, problem.reason[:36]) for problem in front.problems] == [
        (7, "front matter: more than 20,000 value")
    ]


@pytest.mark.parametrize(
    "block",
    ["a: &a [*a]", "a: " + "[" * 50 + "]" * 50, "a: " + "[" * 90_000, "a: " + "x" * 200_001],
)
def test_loops_depth_and_size_have_a_limit(block: str) -> None:
    assert len(read(block).problems) == 1


def test_a_broken_block_is_reported_with_its_line_and_read_as_far_as_its_plain_lines_go() -> None:
    front = read("title: A title: with a colon\ntags: [a, b\nauthor: Ada")
    assert (front.text("title"), front.tags, front.text("author")) == (
        "A title: with a colon",
        ("a", "b"),
        "Ada",
    )
    assert [(problem.path, problem.line) for problem in front.problems] == [("a.md", 2)]


def test_a_key_that_stands_twice_is_reported_and_the_last_one_counts() -> None:
    front = read("title: One\nx: 1\ntitle: Two")
    assert front.text("title") == "Two"
    assert [(problem.line, problem.reason) for problem in front.problems] == [
        (4, "front matter: duplicate key `title`; the last one counts")
    ]


@pytest.mark.parametrize(
    "text", ["", "--- \ntext without an end", " ---\na: b\n---", "text\n---\na: b\n---"]
)
def test_what_is_no_front_matter_is_left_to_the_body(text: str) -> None:
    assert read_front_matter("a.md", text) == FrontMatter()


@pytest.mark.parametrize("text", ["---\ntitle: x\n\n# Text\n", '+++\ntitle = "x"\n'])
def test_front_matter_that_never_ends_is_text_and_reported_with_its_line(text: str) -> None:
    front = read_front_matter("a.md", text)
    reason = (
        f"front matter without a closing `{text[:3]}` line was read as text: add the line after "
        "the last key"
    )
    assert (front.size, [(problem.line, problem.reason) for problem in front.problems]) == (
        0,
        [(1, reason)],
    )


@pytest.mark.parametrize(
    "block",
    ["Just a sentence.", "- a\n- b", "A sentence: with a colon is fine\n\nbut *this is not"],
)
def test_text_between_two_rules_is_text_or_reported(block: str) -> None:
    front = read(block)
    assert front.problems
    assert front.size == 0 or front.fields


@pytest.mark.parametrize("text", ["---\n---\nbody", "---\n# only a comment\n---\nbody"])
def test_an_empty_block_is_no_problem(text: str) -> None:
    front = read_front_matter("a.md", text)
    assert (front.fields, front.problems, text[front.size :]) == ({}, (), "body")


def test_toml_between_plus_signs_is_read_too() -> None:
    front = read('title = "T"\ndate = 2024-01-05\ntags = ["a"]\nx = inf', "+++")
    assert (
        front.text("title"),
        front.text("date"),
        front.tags,
        front.fields["x"],
        front.problems,
    ) == ("T", "2024-01-05", ("a",), "inf", ())
    assert [problem.line for problem in read("a = 1\nb = = 2", "+++").problems] == [3]
