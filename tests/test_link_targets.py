"""Which note, if any, a link leads to: names, addresses of published sites, tags of generators."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from folders import open_library

Files = Mapping[str, str]


def links_in(folder: Path, files: Files) -> tuple[list[str], list[str]]:
    """Write and index files; return `source -> target` of all links, and the broken links."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    with open_library(folder) as library:
        library.index(complete=False)
        links = [f"{path} -> {target}" for path in files for target in library.related(path).links]
        broken = [link.written for link in library.broken().links]
    return sorted(links), broken


def to(*targets: str, source: str = "a.md") -> list[str]:
    return [f"{source} -> {target}" for target in sorted(targets)]


@pytest.mark.parametrize(
    ("files", "links", "broken"),
    [
        (
            {"a.md": "[[Three.js]], [[Alpine.js|Alpine]] [[None.js]] ![[p.svg]]"}
            | {"Three.js.md": "3D", "web/Alpine.js.md": "x"},
            to("Three.js.md", "web/Alpine.js.md"),
            [],
        ),
        (
            {
                "adr/a.md": "# A\n\nObsoletes: 12, 2026, 99\nReplaces: RFC-7, ADR-3\n",
                "adr/0012-b.md": "x",
                "12-c.md": "x",
                "2026-01-31.md": "x",
                "rfc/rfc7.md": "x",
                "adr-7.md": "x",
                "cooking/03-bread.md": "x",
                "adr/05-python.md": "x",
            },
            to("adr/0012-b.md", "rfc/rfc7.md", source="adr/a.md"),
            [],
        ),
        (
            {
                "a.md": "# A\n\nSuperseded by [B](b.md) and [C](c.md)\n",
                "b.md": "---\nsupersedes: [[a]]\n---\n",
            },
            to("b.md") + to("a.md", source="b.md"),
            ["[C](c.md)"],
        ),
        ({"a.md": "![[setup.sh]]", "tools/setup.sh.md": "x"}, to("tools/setup.sh.md"), []),
        ({"a.md": "[[D3.js#Scales|scales]]", "D3.js.md": "# Scales\n"}, to("D3.js.md"), []),
        ({"a.md": "[[lib/Next.js]]", "lib/Next.js.md": "x"}, to("lib/Next.js.md"), []),
        (
            {"a.md": "[[moment.js]]", "Moment.md": "---\naliases: [Moment.js]\n---\nx"},
            to("Moment.md"),
            [],
        ),
        ({"a.md": "[[Über.txt]]", "Über.txt.md": "x"}, to("Über.txt.md"), []),
        ({"a.md": "[[手順.pdf]]", "メモ/手順.pdf.md": "x"}, to("メモ/手順.pdf.md"), []),
        (
            {
                "a.md": '---\nup: "[[Vue.js]]"\nrelated: Deno.ts\n---\nx',
                "Vue.js.md": "x",
                "Deno.ts.md": "x",
            },
            to("Deno.ts.md", "Vue.js.md"),
            [],
        ),
        (
            {"a.md": "[n](Node.js) [m](<b/My App.py>)", "Node.js.md": "x", "b/My App.py.md": "x"},
            to("Node.js.md", "b/My App.py.md"),
            [],
        ),
        (
            {
                "a.md": "[[page.html]] [[notes.mdx]]",
                "page.html.md": "x",
                "page.md": "x",
                "notes.mdx.md": "x",
            },
            to("notes.mdx.md", "page.html.md"),
            [],
        ),
        (
            {
                "a.md": "- [[READ.ME.txt]]\n\n| [[Go.go\\|Go]] |\n| - |\n",
                "READ.ME.txt.md": "x",
                "Go.go.md": "x",
            },
            to("Go.go.md", "READ.ME.txt.md"),
            [],
        ),
        ({"a.md": "[[Read.lock]]", "b.md": "---\ntitle: Read.lock\n---\nx"}, to("b.md"), []),
        # files stay files: another folder's note is not what a path leads to, and images are files
        (
            {"a.md": "[app](src/app.js) ![](x.png) [[y.PNG]] [z](z.zip)", "notes/app.js.md": "x"},
            [],
            [],
        ),
        ({"a.md": "[app](app.js)", "notes/app.js.md": "x"}, [], []),
        (
            {"a.md": "[[Release 1.9]] [[gone.]] [[v2.alpha]]"},
            [],
            ["[[Release 1.9]]", "[[gone.]]", "[[v2.alpha]]"],
        ),
    ],
)
def test_note_with_the_suffix_of_a_file_is_linked(
    tmp_path: Path, files: Files, links: list[str], broken: list[str]
) -> None:
    assert links_in(tmp_path / "vault", files) == (links, broken)


def test_heading_keeps_the_name_of_a_note_with_the_suffix_of_a_file(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "a.md").write_text("# About [[Node.js]] ![[logo.png]] [[x.pdf|it]]\n", "utf-8")
    with open_library(vault) as library:
        library.index(complete=False)
        assert library.all_notes()[0].document.title == "About Node.js it"


@pytest.mark.parametrize(
    ("files", "links", "broken"),
    [
        (
            {"b/a.md": "[x](/setup/) [y](../setup/)", "setup/_index.md": "x"},
            to("setup/_index.md", source="b/a.md"),
            [],
        ),
        (
            {"content/en/b/a.md": "[x](/setup/)", "content/en/setup/_index.md": "x"},
            to("content/en/setup/_index.md", source="content/en/b/a.md"),
            [],
        ),
        (
            {"a.md": "[x](/setup/deep/#part)", "setup/deep/_index.md": "x"},
            to("setup/deep/_index.md"),
            [],
        ),
        (
            {"a.md": "[x](/posts/first/)", "posts/first/index.md": "x"},
            to("posts/first/index.md"),
            [],
        ),
        (
            {
                "a.md": "[x](guide) [y](guide/_index.md) [z](./guide/index.html)",
                "guide/_index.md": "x",
            },
            to("guide/_index.md"),
            ["[z](./guide/index.html)"],
        ),
        (
            {
                "a.md": "[x](guide)",
                "guide/_index.md": "x",
                "guide/index.md": "x",
                "guide/README.md": "x",
            },
            to("guide/index.md"),
            [],
        ),
        (
            {
                "a.md": "[x](/docs/guide/)",
                "x/docs/guide/_index.md": "x",
                "x/docs/guide/README.md": "x",
            },
            to("x/docs/guide/_index.md"),
            [],
        ),
        ({"a.md": "[x](guide/)", "guide.md": "x", "guide/_index.md": "x"}, to("guide.md"), []),
        ({"b/a.md": "[x](/) [y](..)", "_index.md": "x"}, to("_index.md", source="b/a.md"), []),
        # the address of a page is a folder, too
        (
            {"b/a.md": "[x](../../setup/) [y](../c/)", "setup/_index.md": "x", "b/c.md": "x"},
            to("b/c.md", "setup/_index.md", source="b/a.md"),
            [],
        ),
        ({"a.md": "[x](/Über/)", "über/_index.md": "x"}, to("über/_index.md"), []),
        (
            {"a.md": "[x](/old/way/)", "new.md": "---\naliases: [/old/way/]\n---\nx"},
            to("new.md"),
            [],
        ),
        # a name alone does not mean a folder somewhere else
        (
            {"a.md": "[[setup]] [x](setup/) [y](/tup/)", "b/setup/_index.md": "x"},
            [],
            ["[[setup]]", "[x](setup/)", "[y](/tup/)"],
        ),
        (
            {"a.md": "[x](/x/) [y](/_index2/)", "b/x_index.md": "x"},
            [],
            ["[x](/x/)", "[y](/_index2/)"],
        ),
    ],
)
def test_address_of_a_folder_leads_to_its_index(
    tmp_path: Path, files: Files, links: list[str], broken: list[str]
) -> None:
    assert links_in(tmp_path / "vault", files) == (links, broken)


@pytest.mark.parametrize(
    ("folder", "files", "links", "broken"),
    [
        (
            "site",
            {
                "docs/a.md": "[x](@site/docs/in.md) [y](@site/docs/g/p.mdx#a)",
                "docs/in.md": "x",
                "docs/g/p.mdx": "x",
            },
            to("docs/g/p.mdx", "docs/in.md", source="docs/a.md"),
            [],
        ),
        ("docs", {"a.md": "[x](@site/docs/in.md)", "in.md": "x"}, to("in.md"), []),
        (
            "repo",
            {"web/docs/d/a.md": "[x](@site/docs/in.md)", "web/docs/in.md": "x", "docs/in.md": "x"},
            to("web/docs/in.md", source="web/docs/d/a.md"),
            [],
        ),
        (
            "site",
            {"blog/a.md": "[x](@site/docs/in.md)", "docs/in.md": "x"},
            to("docs/in.md", source="blog/a.md"),
            [],
        ),
        (
            "site",
            {
                "docs/a.md": "[x](@site/docs/g/) [y](@site/docs/in)",
                "docs/g/index.md": "x",
                "docs/in.mdx": "x",
            },
            to("docs/g/index.md", "docs/in.mdx", source="docs/a.md"),
            [],
        ),
        (
            "site",
            {"docs/a.md": "[x][r]\n\n[r]: @site/docs/in.md 'In'\n", "docs/in.md": "x"},
            to("docs/in.md", source="docs/a.md"),
            [],
        ),
        (
            "site",
            {
                "docs/a.md": "[x](<@site/docs/two words.md>) [y](@site/docs/%C3%BC.md)",
                "docs/two words.md": "x",
                "docs/ü.md": "x",
            },
            to("docs/two words.md", "docs/ü.md", source="docs/a.md"),
            [],
        ),
        (
            "site",
            {"versioned_docs/version-1/a.md": "[x](@site/docs/in.md)", "docs/in.md": "x"},
            to("docs/in.md", source="versioned_docs/version-1/a.md"),
            [],
        ),
        (
            "zola",
            {"content/blog/a.md": "[x](@/blog/post.md)", "content/blog/post.md": "x"},
            to("content/blog/post.md", source="content/blog/a.md"),
            [],
        ),
        ("site", {"docs/a.md": "![](@site/static/x.png) [z](@site/static/x.zip)"}, [], []),
        (
            "site",
            {"docs/a.md": "[x](@site/docs/gone.md) [y](@site/../out.md)", "docs/in.md": "x"},
            [],
            ["[x](@site/docs/gone.md)", "[y](@site/../out.md)"],
        ),
        (
            "site",
            {"docs/a.md": "[x](@sites/docs/in.md) [y](x@site/in.md)", "docs/b/in.md": "x"},
            [],
            ["[x](@sites/docs/in.md)", "[y](x@site/in.md)"],
        ),
    ],
)
def test_at_site_is_the_root_of_the_site(
    tmp_path: Path, folder: str, files: Files, links: list[str], broken: list[str]
) -> None:
    assert links_in(tmp_path / folder, files) == (links, broken)


@pytest.mark.parametrize(
    ("properties", "path", "link"),
    [
        ("id: flat-state", "faq/Flat.md", "[x](/faq/flat-state#a)"),
        ("id: flat-state", "faq/Flat.md", "[x](faq/flat-state)"),
        ("slug: /begin", "start/First.md", "[x](/begin)"),
        ("slug: /begin/now", "docs/start/First.md", "[x](/docs/begin/now/)"),
        ("slug: begin", "docs/start/First.md", "[x](/start/begin)"),
        ("slug: /", "Intro.md", "[x](/)"),
        ("slug: neu", "posts/erste/index.md", "[x](/posts/neu/)"),
        ("permalink: /about/", "x/Über uns.md", "[x](/about)"),
        ("permalink: about.html", "x/1.md", "[x](/about.html)"),
        ("url: /team/all/", "people.md", "[x](/team/all)"),
        ("id: 202401051030", "zettel/Fire.md", "[[202401051030]]"),
        ("slug: 起動", "start/First.md", "[x](/start/起動)"),
        ("id: old\nslug: /new", "b.md", "[x](/old) [y](/new) [z](b.md)"),
        ("id: ../up", "b/c/d.md", "[x](b/up)"),
    ],
)
def test_properties_decide_what_an_address_leads_to(
    tmp_path: Path, properties: str, path: str, link: str
) -> None:
    files = {"a.md": link, path: f"---\n{properties}\n---\nx"}
    assert links_in(tmp_path / "vault", files) == (to(path), [])


@pytest.mark.parametrize(
    ("properties", "link"),
    [
        ("url: https://example.org/begin", "[x](/begin)"),
        ("permalink: /:year/:title", "[x](/2024/b)"),
        ("slug: ../../out", "[x](/out2)"),
        ("id: begin", "[x](/gin)"),
        ("uid: begin", "[x](/begin)"),
    ],
)
def test_properties_without_an_address_lead_nowhere(
    tmp_path: Path, properties: str, link: str
) -> None:
    files = {"a.md": link, "b/b2.md": f"---\n{properties}\n---\nx"}
    assert links_in(tmp_path / "vault", files) == ([], [link])


def test_note_of_that_name_is_preferred_to_an_id(tmp_path: Path) -> None:
    files = {
        "a.md": "[[begin]] [x](begin.md)",
        "x.md": "---\nslug: begin\n---\n",
        "b/begin.md": "x",
    }
    assert links_in(tmp_path / "vault", files) == (to("b/begin.md"), [])


def test_slug_that_appears_changes_and_goes_is_followed(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "a.md").write_text("[x](/one) [y](/two)", "utf-8")
    seen = []
    with open_library(vault) as library:
        for properties in (
            "",
            "slug: /one",
            "slug: /two",
            "id: one\nslug: two",
            "aliases: [/one]",
            "",
        ):
            (vault / "b.md").write_text(f"---\nkind: x\n{properties}\n---\nText\n", "utf-8")
            library.index(complete=False)
            seen.append([link.target for link in library.broken().links])
    assert seen == [["/one", "/two"], ["/two"], ["/one"], [], ["/two"], ["/one", "/two"]]


@pytest.mark.parametrize(
    ("link", "path"),
    [
        ('[x]({{< ref "sail.md" >}})', "sail.md"),
        ('[x]({{< relref "sail.md#rig" >}})', "sail.md"),
        ('[x]({{% ref "/docs/sail" %}})', "docs/sail.md"),
        ("[x]({{<ref `my sail.md`>}})", "my sail.md"),
        ('[x]({{< relref path="sail" lang="de" >}} "Title")', "sail.md"),
        ('[x]({{< ref "/docs/" >}})', "docs/_index.md"),
        ("[x]({% link _posts/2024-01-05-sail.md %}#rig)", "_posts/2024-01-05-sail.md"),
        ("[x]({{ site.baseurl }}{% link sail.md %})", "sail.md"),
        ("[x]({% post_url 2024-01-05-sail %})", "_posts/2024-01-05-sail.md"),
        ("[x]({{ site.baseurl }}/docs/sail)", "docs/sail.md"),
        ("[x]({{site.url}}{{site.baseurl}}/docs/sail.html?a=b)", "docs/sail.md"),
        ("[x]({{ '/docs/sail' | relative_url }})", "docs/sail.md"),
        ('[x]({{ "/docs/sail/" | absolute_url }}#rig)', "docs/sail.md"),
        ("[x]({{- '/docs/über' | prepend: site.baseurl -}})", "docs/über.md"),
        ('[x][r]\n\n[r]: {{< ref "sail.md" >}}\n', "sail.md"),
        ("- [**x** `y`]({%- link docs/sail.md -%})", "docs/sail.md"),
    ],
)
def test_link_in_a_tag_leads_to_its_note(tmp_path: Path, link: str, path: str) -> None:
    files = {"a.md": f"# A\n\n{link}\n", path: "# Sail\n\n## Rig\n"}
    assert links_in(tmp_path / "vault", files) == (to(path), [])


@pytest.mark.parametrize(
    ("link", "broken"),
    [
        ("[x]({{ page.next }})", []),
        ("[x]({{< figure src=a.md >}})", []),
        ('[x]({{</* ref "gone" */>}})', []),
        ("[x]({{ site.baseurl }}/tags/all)", []),
        ("[x]({% if a %}b{% endif %})", []),
        ("[[{{date}}]] [[<% tp.file.title %>]]", []),
        ("[x]({{ site.baseurl }}/a.pdf)", []),
        ('[x]({{< ref "gone.md#rig" >}})', ['[x]({{< ref "gone.md" >}}#rig)']),
        ("[x]({% link gone.md %})", ["[x]({% link gone.md %})"]),
        ("[x]({gone}) [y](%7Bgone%7D) [z]({{)", ["[x]({gone})", "[y]({gone})", "[z]({{)"]),
        ("`[x]({% link gone.md %})`", []),
    ],
)
def test_tag_that_only_a_generator_knows_is_not_broken(
    tmp_path: Path, link: str, broken: list[str]
) -> None:
    assert links_in(tmp_path / "vault", {"a.md": link}) == ([], broken)


@pytest.mark.parametrize(
    ("link", "path"),
    [
        ("[[plan/2024]]", "pages/plan___2024.md"),
        ("[[Plan/2024]]", "pages/plan%2F2024.md"),
        ("[[a/b/c]]", "a___b___c.md"),
        ("[[What?]]", "pages/What%3F.md"),
        ("[x]([[plan/2024]])", "pages/plan___2024.md"),
        ("#x [[plan/2024|that]] ![[plan/2024]]", "pages/plan___2024.md"),
        ("[[größe/ß]]", "pages/größe___ß.md"),
        ("[[plan___2024]]", "pages/plan___2024.md"),
        ("[[2024]]", ""),
        ("[[plan/2025]]", ""),
        ("[[b/2024]]", ""),
    ],
)
def test_namespace_of_logseq_is_part_of_the_name(tmp_path: Path, link: str, path: str) -> None:
    files = {"a.md": link, path or "pages/plan___2024.md": "x"}
    expected = (to(path), []) if path else ([], [link])
    assert links_in(tmp_path / "vault", files) == expected
