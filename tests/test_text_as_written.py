"""Notes are found by their visible words, in any script and however the Markdown writes them."""

import re
import unicodedata
from collections.abc import Iterator

import pytest

from folders import write_notes
from thumbindex.library import Library
from thumbindex.text import combining_mark, words
from thumbindex.visible_text import embedded_text, strip_markup

NFD = "NFD"

ENTITIES = [
    ("Fran&ccedil;ois paints.", "François"),
    ("A na&#239;ve plan.", "naïve"),
    ("&#x4E2D;&#X6587; is spoken.", "中文"),
    ("It weighs 5&nbsp;kg.", '"5 kg"'),
    ("On hyphen&shy;ation.", "hyphenation"),
    ("A photo&#8203;graph and a tele&zwj;scope.", "photograph telescope"),
    ("The R&amp;D team.", '"R&D"'),
    ("They don&#39;t wait, they can&rsquo;t.", "don't"),
    ("| &Auml;pfel | 3 |\n| --- | --- |\n| Birnen | 4 |", "Äpfel"),
    ("See [K&ouml;ln](cologne.md).", "Köln"),
    # not decoded
    ("Open shop.example?year=1&copy=1&sect=2 now.", "copy"),
    ("Write `&ecirc;` in HTML.", "ecirc"),
    ("```html\n&thorn;\n```", "thorn"),
    ("Write &amp;oslash; in HTML.", "oslash"),
    ("The &gadget; is no entity.", "gadget"),
]

INSIDE_WORDS = [
    ("Add H~2~SO~4~ slowly.", "H2SO4"),
    ("The area is x^2^ and the 22^nd^ day.", "22nd"),
    ("A super<wbr>califragilistic word.", "supercalifragilistic"),
    ('Fly to <span style="color: red">Sing</span>apore.', "Singapore"),
    ("An <mark>auto</mark>matic door, E = mc<SUP>2</SUP>.", "automatic mc2"),
    ("**T**ransport ==L==ayer ~~S~~ecurity.", '"transport layer security"'),
    ("It is un*frigging*believable and in**finite**.", "unfriggingbelievable infinite"),
    ("<b><i>N</i></b>ational <u>P</u>ark", '"national park"'),
    ("Two *recipe*s, three **invoice**s, one <a href='x.md'>cat</a>s.", "recipes invoices cats"),
    ("Dose: SO<sub>4</sub><sup>2-</sup> per m<sup>3</sup>/h.", "SO42"),
    ("***B***ravo, de*ci*de.", "bravo decide"),
    # not joined
    ("the harbor<br>pilot boards", '"harbor pilot"'),
    ("<table><tr><td>walnut</td><td>almond</td></tr></table>", '"walnut almond"'),
    ("<a href='a.md'>Lisbon</a><a href='b.md'>Porto</a>", "Lisbon"),
    ("Press <kbd>Control</kbd><kbd>Escape</kbd>.", "Escape"),
]

ESCAPES = [
    ("Set SNAKE\\_CASE\\_NAME first.", "SNAKE_CASE_NAME"),
    ("Version 7\\.12\\.3 is out.", "7.12.3"),
    ("Run it with \\-\\-dry-run.", "--dry-run"),
    ("The package left\\-pad\\-all is small.", '"left-pad-all"'),
    ("Edit settings\\.toml today.", "settings.toml"),
    ("It uses std\\:\\:vector a lot.", "std::vector"),
    ("Call getOwner\\(\\) once.", "getOwner()"),
    ("We won\\'t pay.", "won't"),
    ("Use \\*kwargs and \\#channel.", "kwargs channel"),
    ("- WITH&#95;ENTITY&#95;NAME", "WITH_ENTITY_NAME"),
    ("A <b>BOLD_</b>FLAG_NAME is set.", "BOLD_FLAG_NAME"),
    # not an escape
    ("In C:\\Windows\\Fonts and \\\\server\\printers.", '"Windows Fonts"'),
    ("Match `\\d+\\.csv` or ``a\\`b``.", "csv"),
]

# the parts of identifiers of `ESCAPES`, more often than in the note that has the identifier
PARTS = {
    "parts.md": "A snake case name, a case of a name, a run dry, a dry run, a flag bold name, a "
    "name with an entity, the entity name with it, settings and toml, vector std, 3 12 7, 7 3 12.\n"
}

MARKED = [
    ("שָׁלוֹם עֲלֵיכֶם", "שלום"),
    ("किताब मेज़ पर है", "किताब मेज"),
    ("ฉันชอบอ่านหนังสือภาษาไทยทุกวัน", "หนังสือ"),
    ("ខ្ញុំរៀនភាសាខ្មែរ", "ខ្មែរ"),
    ("သူသည်မြန်မာစာဖတ်သည်", "မြန်မာ"),
    ("ຂ້ອຍຮຽນພາສາລາວ", "ພາສາ"),
    ("தமிழ் ஒரு மொழி", "மொழி"),
    ("বাংলা ভাষা", "ভাষা"),
    ("ශ්‍රී ලංකාව", "ශ්‍රී"),
    ("བོད་སྐད་ཡིག", "སྐད"),
    ("Ọ̀rọ̀ Yorùbá", "oro yoruba"),
    (unicodedata.normalize(NFD, "Tiếng Việt rất hay"), "tieng viet"),
    ("The vowel [bɛ̃n] and the mean x\u0304bar\u0304.", "xbar"),
    ("بِسْمِ ٱللَّهِ ٱلرَّحْمَٰنِ", "الله"),
    ("ދިވެހި ބަސް", "ދިވެހި"),
]

PERSIAN_AND_ARABIC = [
    ("این کتاب خوب است", "كتاب"),  # Arabic kaf
    ("هذا كرسي جميل", "کرسی"),  # Persian letters
    ("مستشفى المدينة", "مستشفي"),
    ("سنة ٢٠٢٤ انتهت", "2024"),
    ("در سال ۱۴۰۳ بود", "1403"),
    ("The bill of 1987.", "١٩٨٧"),
    ("Anno 1655.", "۱۶۵۵"),
    ("वर्ष १९४७ में", "1947"),
    ("ปี ๒๕๖๗ ผ่านไป", "2567"),
    ("ســـلام عليكم", "سلام"),
    ("ﺍﻟﻤﺪﺭﺳﺔ بعيدة", "المدرسة"),  # presentation forms
    ("می‌خواهم بروم", "خواهم"),  # a zero-width non-joiner ends a part
]

WRITTEN = {
    "entities": ENTITIES,
    "inside words": INSIDE_WORDS,
    "escapes": ESCAPES,
    "marks": MARKED,
    "letters and digits": PERSIAN_AND_ARABIC,
}
CASES = [(kind, n, query) for kind, rows in WRITTEN.items() for n, (_, query) in enumerate(rows)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    root = tmp_path_factory.mktemp("written") / "notes"
    for kind, rows in WRITTEN.items():
        write_notes(root / kind, {f"{n}.md": f"{text}\n" for n, (text, _) in enumerate(rows)})
    write_notes(root, TAGGED)
    write_notes(root, PARTS)
    with Library.open([root], index=root.parent / "index", wait_for_models=False) as library:
        library.index(complete=False)
        yield library


@pytest.mark.parametrize(("kind", "n", "query"), CASES)
def test_note_is_found_by_its_visible_words(
    library: Library, kind: str, n: int, query: str
) -> None:
    answer = library.query(query)
    assert ([p.path for p in answer.passages[:1]], answer.corrected, answer.unmet) == (
        [f"{kind}/{n}.md"],
        None,
        (),
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("कम", "काम"),
        ("เสือ", "เสื้อ"),
        ("か", "が"),
        ("йод", "иод"),
        ("தமிழ", "தமிழி"),
        ("בית", "בת"),
        ("كتب", "كاتب"),
    ],
)
def test_a_mark_or_letter_that_makes_another_word_counts(one: str, other: str) -> None:
    assert words(one) != words(other)


TAGGED = {
    "tags/1.md": f"Coffee. #{unicodedata.normalize(NFD, 'café')}/berlin\n",
    "tags/2.md": "भाषा #हिन्दी\n",
    "tags/3.md": "#ภาษาไทย\n",
    "tags/4.md": "#עִבְרִית\n",
    "tags/5.md": "---\ntags: [دریاک]\n---\nx\n",
}


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("#café/berlin", "tags/1.md"),
        (f"tag:{unicodedata.normalize(NFD, 'café')}", "tags/1.md"),
        ("#हिन्दी", "tags/2.md"),
        ("tag:ภาษาไทย", "tags/3.md"),
        ("#עברית", "tags/4.md"),
        ("tag:درياك", "tags/5.md"),
    ],
)
def test_tag_is_found_with_its_marks(library: Library, query: str, path: str) -> None:
    answer = library.query(query)
    fields = [filter_.field for filter_ in answer.filters]
    assert ([p.path for p in answer.passages], fields) == ([path], ["tag"])


@pytest.mark.parametrize(
    ("citation", "n"),
    [
        ("Add H2SO4 slowly.", 0),
        ("Fly to Singapore.", 3),
        ("An automatic door, E = mc2.", 4),
        ("Transport Layer Security.", 5),
    ],
)
def test_quotation_of_the_visible_text_is_there(library: Library, citation: str, n: int) -> None:
    (check,) = library.verify(f'inside words/{n}.md (line 1): "{citation}"').citations
    assert check.state == "there"


@pytest.mark.parametrize(
    ("markdown", "visible"),
    [
        ("2*3*4 = 24, a*b*c and 2**3", "2*3*4 = 24, a*b*c and 2**3"),
        ("a_b_c, snake__case, 2^10", "a_b_c, snake__case, 2^10"),
        ("*.py or ~/bin ~ $HOME", "*.py or ~/bin ~ $HOME"),
        ("a ~ b ~ c, x == y, x==y", "a ~ b ~ c, x == y, x==y"),
        ("about ~5 to ~7 minutes", "about ~5 to ~7 minutes"),
        ("`a**b**c == d` and `x | y`", "a**b**c == d and x | y"),
        ("`List<String>` and `&lt;b&gt;`", "List<String> and &lt;b&gt;"),
        ("``a`b\\_c`` and \\`not\\_code\\`", "a`b\\_c and `not_code`"),
        ("```c\nchar **p = &amp;x; // \\n\n```", "char **p = &amp;x; // \\n"),
        ("> ~~~\n> x ** 2\n> ~~~", "x ** 2"),
        ("```\nnever **closed**", "never **closed**"),
        ("\\*\\*not bold\\*\\* \\<b\\> \\[x\\](y)", "**not bold** <b> [x](y)"),
        ("&lt;b&gt; &amp;amp; &#42;x&#42; &#0; &#xD800;", "<b> &amp; *x* \ufffd \ufffd"),
        ("[`a|b`](x.md) and **`**`**", "a|b and **"),
        ("one`two\n\nthree` *four*", "onetwo\nthree four"),
        ("hard\\\nbreak", "hard\nbreak"),
        ("[a](b_(c).md), [d](e.md 'f'), [g](<h i.md>)", "a, d, g"),
        ('[x]({{< ref "y" >}}) [![build](i.svg "t")](https://ci.example/y)', "x build"),
        (
            "<jane@x.example>, <https://x.example/a_b>, <b>",
            "jane@x.example, https://x.example/a_b,",
        ),
        ("\x00 0\x00 `x*y`", "0 x*y"),
    ],
)
def test_text_that_is_no_markup_stays(markdown: str, visible: str) -> None:
    assert strip_markup(markdown) == visible


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("🚀launch", "🚀 launch"),
        ("done✅", "done ✅"),
        ("❤️love", "❤️ love"),
        ("fast🚀rocket", "fast 🚀 rocket"),
        ("→next, back←", "→ next, back ←"),
        ("★rated 20℃", "★ rated 20 ℃"),
        ("👩‍💻developer", "👩‍💻 developer"),
        ("🇩🇪Germany", "🇩🇪 Germany"),
        ("☕️coffee ✓ok", "☕️ coffee ✓ ok"),
        ("1️⃣first", "1️⃣ first"),
        ("&#128640;launch", "🚀 launch"),
        # not separated
        ("© 2024 £5 20°C ½ x²", "© 2024 £5 20°C ½ x²"),
        ("a → b, 🚀🚀 (🚀) “🚀”", "a → b, 🚀🚀 (🚀) “🚀”"),
        ("don’t – naïve… 中文", "don’t – naïve… 中文"),
    ],
)
def test_model_reads_a_word_apart_from_an_emoji(written: str, read: str) -> None:
    assert embedded_text((), written) == read


def test_marks_are_those_of_every_script() -> None:
    marks = {c for c in map(chr, range(0x110000)) if unicodedata.category(c) in ("Mn", "Mc")}
    selectors = set(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
    pattern = re.compile(combining_mark())
    assert set(filter(pattern.fullmatch, map(chr, range(0x110000)))) == marks - selectors
