from __future__ import annotations

from collections.abc import Collection

import pytest

from fakes import FakeEmbedder, document
from thumbindex.model import Abbreviation
from thumbindex.query.expansion import abbreviation_forms, spell_out_abbreviations, word_runs
from thumbindex.query.stage import OtherForm
from thumbindex.text import form_key

DEFINED = {
    Abbreviation("k8s", "kubernetes"): 1,
    Abbreviation("sso", "single sign on"): 3,
    Abbreviation("llm", "large language models"): 1,
    Abbreviation("ci", "continuous integration"): 3,
    Abbreviation("ci", "configuration item"): 1,
    Abbreviation("pr", "pull request"): 2,
    Abbreviation("pr", "public relations"): 2,
}


def find_defined(forms: Collection[str]) -> dict[Abbreviation, int]:
    return {
        each: count
        for each, count in DEFINED.items()
        if each.short in forms or form_key(each.long) in forms
    }


def forms_of(text: str) -> list[tuple[str, ...]]:
    return [tuple(form) for form in abbreviation_forms(list(word_runs(text)), find_defined)]


@pytest.mark.parametrize(
    ("query", "form", "other"),
    [
        ("How do I deploy to K8s?", "k8s", "kubernetes"),
        ("kubernetes ingress", "kubernetes", "k8s"),
        ("single sign-on setup", "single sign on", "sso"),
        ("do LLMs help", "llms", "large language models"),
        ("ci jobs", "ci", "continuous integration"),
    ],
)
def test_abbreviation_has_form_of_most_documents(query: str, form: str, other: str) -> None:
    assert forms_of(query) == [(form, other)]


@pytest.mark.parametrize(
    "text",
    [
        "pr review",
        '"sso"',
        "`sso`",
        "[[SSO]]",
        "--sso",
        "sso and single sign-on",
        "single, sign on",
    ],
)
def test_ties_quotes_and_code_add_no_forms(text: str) -> None:
    assert forms_of(text) == []


def test_long_form_of_unknown_abbreviation_is_embedded() -> None:
    forms = [OtherForm("k8s", "kubernetes"), OtherForm("single sign on", "sso")]
    texts = [
        spell_out_abbreviations("k8s sso", forms, embedder)
        for embedder in (FakeEmbedder(), FakeEmbedder(known=["k8s"]), None)
    ]
    assert texts == ["k8s sso (kubernetes)", "", ""]


VAULT = [
    document(
        "defined.md",
        "# Glossary\n\nKubernetes (k8s) and single sign-on (SSO) stand here.",
        abbreviations=tuple(DEFINED)[:2],
    ),
    document("long.md", "# Clusters\n\nKubernetes schedules our jobs on many machines."),
    document("short.md", "# Teams\n\nSSO is part of the larger plan."),
    document("menu.md", "# Menus\n\nA drop-down opens below, and each file name is listed."),
]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("k8s", "long.md"),
        ("single sign-on", "short.md"),
        ("dropdown", "menu.md"),
    ],
)
def test_page_with_only_the_other_form_is_found(ask, query: str, path: str) -> None:
    tables = {"confidence": {"minimum_relevance": 0.0}}
    on, off = (ask(VAULT, query, off=name, **tables)[0] for name in ("", "synonyms"))
    assert [path in [passage.path for passage in search.passages[:2]] for search in (on, off)] == [
        True,
        False,
    ]


def test_separate_words_of_long_form_do_not_match(ask) -> None:
    notes = [VAULT[0], document("trees.md", "# Trees\n\nPut a sign on a single tree.")]
    assert [passage.path for passage in ask(notes, "SSO")[0].passages] == ["defined.md"]


def test_short_or_stop_word_is_not_a_compound_part(ask) -> None:
    notes = [document("a.md", "# A\n\nSet up here: in form, that ch, for get.")]
    assert [ask(notes, text)[0].other_forms for text in ("inform", "thatch", "forget")] == [
        (),
        (),
        (),
    ]


HYPHENS = [
    document("git.md", "# Git\n\nUse cherrypick to copy a commit to a branch."),
    document("bash.md", "# Bash\n\nThe proper she-bang is short. A set-up is one."),
    *(document(f"{day}.md", f"# {day}\n\nWe set up tents.") for day in ("Friday", "Sunday")),
    document("links.md", "# Links\n\nA shebang begins a script, and a setup is a start."),
]


@pytest.mark.parametrize(
    ("query", "path"), [("cherry-pick", "git.md"), ("shebang", "bash.md"), ("she-bang", "links.md")]
)
def test_word_is_found_with_and_without_hyphen(ask, query: str, path: str) -> None:
    search = ask(HYPHENS, query)[0]
    assert path in [passage.path for passage in search.passages[:2]]
    assert search.confidence_level == "high"


@pytest.mark.parametrize("query", ["setup", "pre-shebang", "--she-bang", "`she-bang`", '"shebang"'])
def test_other_words_in_a_row_flags_and_code_are_no_compound(ask, query: str) -> None:
    assert ask(HYPHENS, query)[0].other_forms == ()
