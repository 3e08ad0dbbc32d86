import pytest

from thumbindex.corpus.front_matter import FrontMatter, read_front_matter
from thumbindex.corpus.parse import parse_document
from thumbindex.settings import CorpusSettings


def read(block: str, mark: str = "---") -> FrontMatter:
    return read_front_matter("a.md", f"{mark}\n{block}\n{mark}\nbody")


def test_all_known_fields_are_read() -> None:
    block = (
        "title: A title\ntags: [one, two/deep]\naliases:\n  - Other name\nkeywords: a, b c\n"
        "summary: Short.\n"
        "author:\n  - Ada\n  - name: Bob\ncategories: [x, y]\ntype: guide\n"
        "related: ['[[Note]]', b.md]"
    )
    parsed = parse_document("a.md", f"---\n{block}\n---\nbody".encode(), CorpusSettings())
    document = parsed.document
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
    assert [(link.target, link.line) for link in parsed.links] == [("Note", 13), ("b.md", 13)]


@pytest.mark.parametrize(
    ("block", "tags"),
    [
        ("tags:", ()),
        ("tags: one two", ("one", "two")),
        ("tags: '#one #two/deep'", ("one", "two/deep")),
        ("tags: [one, '#two', one]", ("one", "two")),
        ("tags:\n- 2024\n-\n- true", ("2024", "true")),
        ("tag: one", ("one",)),
    ],
)
def test_tags_are_read_in_any_notation(block: str, tags: tuple[str, ...]) -> None:
    assert read(block).tags == tags


def test_values_are_json_safe_and_keep_their_types() -> None:
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


def test_yaml_bomb_is_rejected_but_its_plain_lines_are_read() -> None:
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
def test_loops_depth_and_size_are_limited(block: str) -> None:
    assert len(read(block).problems) == 1


def test_broken_block_is_reported_and_its_plain_lines_are_read() -> None:
    front = read("title: A title: with a colon\ntags: [a, b\nauthor: Ada")
    assert (front.text("title"), front.tags, front.text("author")) == (
        "A title: with a colon",
        ("a", "b"),
        "Ada",
    )
    assert [(problem.path, problem.line) for problem in front.problems] == [
        ("a.md", 2),
        ("a.md", 3),
    ]


def test_duplicate_key_is_reported_and_the_last_value_counts() -> None:
    front = read("title: One\nx: 1\ntitle: Two")
    assert front.text("title") == "Two"
    assert [(problem.line, problem.reason) for problem in front.problems] == [
        (4, "front matter: duplicate key `title`: the last value is used")
    ]


@pytest.mark.parametrize(
    "text", ["", "--- \ntext without an end", " ---\na: b\n---", "text\n---\na: b\n---"]
)
def test_text_without_front_matter_is_body(text: str) -> None:
    assert read_front_matter("a.md", text) == FrontMatter()


@pytest.mark.parametrize("text", ["---\ntitle: x\n\n# Text\n", '+++\ntitle = "x"\n'])
def test_unclosed_front_matter_is_reported_and_read_as_text(text: str) -> None:
    front = read_front_matter("a.md", text)
    reason = (
        f"front matter without a closing `{text[:3]}` line is treated as text: add the line after "
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
def test_prose_between_two_rules_is_reported(block: str) -> None:
    front = read(block)
    assert front.problems
    assert front.size == 0 or front.fields


@pytest.mark.parametrize("text", ["---\n---\nbody", "---\n# only a comment\n---\nbody"])
def test_empty_block_is_accepted(text: str) -> None:
    front = read_front_matter("a.md", text)
    assert (front.fields, front.problems, text[front.size :]) == ({}, (), "body")


def test_toml_between_plus_signs_is_read() -> None:
    front = read('title = "T"\ndate = 2024-01-05\ntags = ["a"]\nx = inf', "+++")
    assert (
        front.text("title"),
        front.text("date"),
        front.tags,
        front.fields["x"],
        front.problems,
    ) == ("T", "2024-01-05", ("a",), "inf", ())
    assert [problem.line for problem in read("a = 1\nb = = 2", "+++").problems] == [3]
