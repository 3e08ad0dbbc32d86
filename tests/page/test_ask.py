"""The Ask screen: its addresses, page and JSON."""

import re

from folders import open_library, write_notes
from thumbindex.page.visit import note_address, screen_address


def test_answer_marks_words_and_links_to_lines(browser, tags_of):
    page = browser.get("/?q=green+button+syncing")
    tags = tags_of(page.text)
    assert page.status_code == 200
    assert ("mark", {}) in tags.tags
    assert "Press the green button" in tags.text
    assert any(link.startswith("/note/vault/sync.md?lines=") for link in tags.links())


def test_chips_remove_filters_from_the_address(browser, tags_of):
    page = tags_of(browser.get("/?q=sync&tag=guide/setup&since=2026-01-01").text)
    assert "/?q=sync&tag=guide%2Fsetup" in page.links()
    assert "/?q=sync&since=2026-01-01" in page.links()
    assert "No note has the tag #nothing" in browser.get("/?q=sync&tag=nothing").text


def test_conditions_are_chips_and_an_answer_offers_filters(tmp_path, browse, tags_of):
    notes = {
        "a.md": "---\nstatus: in work\nfile: x\ntags: [x]\n---\nThe mill turns.\n",
        "b.md": "---\nstatus: in work\nfile: x\nrating: 4\nkind: mill\ntags: [x]\n---\n"
        "The mill stands.\n",
        "c.md": "---\nkind: mill\nrating: 4\n---\nThe mill is old.\n",
    }
    with open_library(write_notes(tmp_path / "v", notes)) as library:
        library.index()
        browser = browse(library)
        offered = tags_of(browser.get("/?q=the+mill&limit=5").text)
        narrowed = tags_of(browser.get("/?q=the+mill&where=rating%3E%3D4").text)
        fields = [facts for tag, facts in narrowed.tags if facts.get("name") == "where"]
        assert browser.get("/?q=the+mill&where=rating").status_code == 400
    links = [link for link in offered.links() if link.startswith("/?q=the+mill")]
    assert links[-3:] == [
        "/?q=the+mill&tag=x&limit=5",
        "/?q=the+mill&where=kind%3Amill&limit=5",
        "/?q=the+mill&where=status%3A%22in+work%22&limit=5",
    ]
    assert "kind:mill 2" in offered.text
    assert "/?q=the+mill" in narrowed.links()
    assert ("b.md" in narrowed.text, "a.md" in narrowed.text) == (True, False)
    assert [facts["value"] for facts in fields] == ["rating>=4"]


def test_retired_passage_links_to_its_successor(tmp_path, browse, tags_of):
    notes = {
        "old.md": "# Deploy\n\nDeploy on Fridays.\n",
        "new.md": "---\nreplaces: old\n---\nNew.\n",
    }
    with open_library(write_notes(tmp_path / "v", notes)) as library:
        library.index()
        tags = tags_of(browse(library).get("/?q=deploy+fridays").text)
    assert "not in force: superseded by new.md" in tags.text
    assert "/note/v/new.md" in tags.links()


def test_typed_filter_is_a_chip_that_removes_it_from_the_question(browser, tags_of):
    page = tags_of(browser.get("/?q=sync+tag:guide").text)
    assert ("/?q=sync" in page.links(), "tag:guide ×" in page.text) == (True, True)


def test_results_are_grouped_by_note_and_the_first_is_quoted(vault_copy, browse, tags_of):
    green, black = (" ".join(f"{word}{n}" for n in range(400)) for word in ("leaf", "root"))
    notes = {
        "tea.md": f"# Tea\n\n## Green\n\nBrew **green tea** cool.\n\n{green}\n\n"
        f"## Black\n\nBrew black tea hot.\n\n{black}\n",
        "pot.md": "# Pot\n\nA pot for tea.\n",
    }
    page = browse(vault_copy(notes)).get("/?q=brew+tea&limit=5").text
    text = tags_of(page).text
    assert page.index("<blockquote") < page.index("3 more in this note") < page.index("A pot for")
    assert ("<strong>" in page, "**" in text, "5 results from 2 notes in" in text) == (
        True,
        False,
        True,
    )


def test_shown_cited_and_linked_lines_are_the_same_and_code_is_whole(vault_copy, browse, tags_of):
    filler = "\n\n".join(f"Paragraph {n} about nothing." for n in range(60))
    text = f"# Build\n\n{filler}\n\n```sh\nmake one\nmake zebra\nmake two\n```\n\n{filler}\n"
    tags = tags_of(browse(vault_copy({"a.md": text})).get("/?q=zebra").text)
    [link] = [link for link in tags.links() if "?lines=" in link][:1]
    [citation] = [str(facts["data-copy"]) for _, facts in tags.tags if "data-copy" in facts]
    first, _, last = link.partition("?lines=")[2].partition("#")[0].partition("-")
    assert (f"(lines {first}-{last})" in citation, int(last) - int(first) >= 4) == (True, True)
    assert "make one\nmake zebra\nmake two" in tags.text


def test_answer_offers_more_of_its_notes(vault_copy, browse, tags_of):
    kinds = "green black white yellow herbal".split()
    page = browse(vault_copy({f"{kind}.md": f"Tea: {kind} {kind[::-1]}.\n" for kind in kinds}))
    answer = tags_of(page.get("/?q=tea&limit=2").text)
    assert "2 results from 2 of 5 notes in" in answer.text
    assert "/?q=tea&limit=20" in answer.links()
    assert "Show more" not in tags_of(page.get("/?q=tea&limit=20").text).text


def test_snippet_shows_code_and_no_emphasis(vault_copy, browse):
    notes = {"a.md": "# Pot\n\nA pot.\n", "b.md": "Brew _green_ tea in `some_mug`, not a pot.\n"}
    page = browse(vault_copy(notes)).get("/?q=pot&limit=2").text
    assert "Brew green tea in <code>some_mug</code>" in page


def test_start_shows_directories_example_questions_and_newest_notes(vault_copy, browse, tags_of):
    notes = {
        "a/old.md": "---\ndate: 2020-01-01\n---\n# Old mill\n\n## Repair the wheel\n\nOil it.\n",
        "a/new.md": "---\ndate: 2021-01-01\n---\n# New mill\n\nText.\n",
        "top.md": "Text.\n",
    }
    page = tags_of(browse(vault_copy(notes)).get("/").text)
    assert page.links()[-4:-2] == ["/?path=a%2F%2A%2A", "/?q=Old+mill+Repair+the+wheel"]
    assert [link.rpartition("/")[2] for link in page.links()[-2:]] == ["new.md", "old.md"]


def test_headings_of_a_template_are_no_example_questions(vault_copy, browse, tags_of):
    template = "# {0} mill\n\n## Author of\n\nMills.\n\n## What we learned from this one\n\nLess.\n"
    notes = {f"{name}.md": template.format(name) for name in ("old", "new")}
    page = tags_of(browse(vault_copy(notes)).get("/").text)
    assert not [link for link in page.links() if link.startswith("/?q=")]


def test_notes_without_dates_are_listed_by_their_last_change(vault_copy, browse, tags_of):
    page = tags_of(browse(vault_copy({"a.md": "Text.\n"})).get("/").text)
    assert page.links()[-1].endswith("/a.md")


def test_form_keeps_what_it_does_not_show(browser, tags_of):
    kept = {
        "tag": "b",
        "path": "c",
        "also": "d",
        "passage": "e",
        "limit": "3",
        "verbatim": "1",
        "retired": "1",
    }
    address = "&".join(f"{name}={value}" for name, value in kept.items())
    tags = tags_of(browser.get(f"/?q=sync&tag=a&path=a&{address}").text).tags
    hidden = (facts for tag, facts in tags if tag == "input" and facts.get("type") == "hidden")
    assert {facts["name"]: facts["value"] for facts in hidden} == kept


def test_part_header_returns_only_the_answer(browser, tags_of):
    whole, part = (
        browser.get("/?q=green+button"),
        browser.get("/?q=green+button", Thumbindex_Part="answer"),
    )
    without_time = re.compile(r"\d+ ms").sub
    assert without_time("", part.text.partition('<div id="answer">')[2].rstrip()) == without_time(
        "", whole.text.partition('<div id="answer">')[2].partition("</main>")[0].rstrip()
    )
    assert {tag for tag, facts in tags_of(part.text).tags} & {
        "head",
        "header",
        "script",
        "link",
    } == set()
    assert "<title>green button - thumbindex</title>" in part.text


def test_unanswered_question_links_to_why(browser):
    page = browser.get("/?q=xylophone+quarterly+zebra").text
    assert "Nothing found: no note has xylophone" in page
    assert "/why?q=xylophone" in page


def test_addresses_escape_special_characters():
    assert screen_address("ask", q="a&b", tag=("x", "y"), limit=None) == "/?q=a%26b&tag=x&tag=y"
    assert (
        note_address("my notes", "a#b/c?d.md", (3, 9))
        == "/note/my%20notes/a%23b/c%3Fd.md?lines=3-9#L3"
    )
    assert note_address("n", "caf\udce9.md") == "/note/n/caf%E9.md"


def test_invalid_parameters_are_refused(browser):
    assert browser.get("/?q=a&limit=-1").status_code == 400
    assert browser.get("/?q=a&since=tomorrow").status_code == 400
    assert browser.get(f"/?q={'a' * 20_000}").status_code == 400
    assert browser.get("/?" + "tag=a&" * 600).status_code == 400
    assert browser.get("/?q=a&folder=nobody").status_code == 404


def test_lines_of_a_passage_appear_once_in_order(vault_copy, browse, tags_of):
    long = (
        "# Long\n\n"
        + "".join(f"Row {n} of words.\n" for n in range(20))
        + "The zebra drinks.\n"
        + "".join(f"Line {n} of words.\n" for n in range(50))
    )
    text = tags_of(browse(vault_copy({"long.md": long})).get("/?q=zebra+drinks").text).text
    places = [
        text.index(words)
        for words in ("Row 0 of", "Row 19 of", "The zebra drinks", "Line 3 of", "Line 19 of")
    ]
    assert places == sorted(places)
    assert text.count("Line 7 of words.") == 1
    assert "lines before" in text
    assert "lines after" in text
