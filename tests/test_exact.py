"""Words, numbers and signs as they are written: quotes, apostrophes, separators and emoji."""

from collections.abc import Callable, Iterator, Mapping

import pytest

from folders import open_library, write_notes
from thumbindex.library import Library
from thumbindex.ports import Embedder
from thumbindex.present.sentences import confidence_sentence

OTHERS = {
    "zz/beds.md": "# Beds\n\nThe geese pond lies behind the tomatoes. Weeding is done at noon.",
    "zz/bike.md": "# Bike\n\nNew tires and a chain, 40 euros at the corner.",
    "zz/rent.md": "# Rent\n\nPaid on the 3rd of each month by standing order.",
    "zz/soup.md": "# Soup\n\nLeeks, cream and salt. Feeding six takes half an hour.",
}

Open = Callable[[Mapping[str, str]], Library]


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory, real_embedder: Embedder) -> Iterator[Open]:
    """Return a function that indexes notes, once per set of notes."""
    opened: dict[int, Library] = {}

    def open_notes(notes: Mapping[str, str]) -> Library:
        if id(notes) not in opened:
            root = tmp_path_factory.mktemp("exact") / "vault"
            opened[id(notes)] = open_library(
                write_notes(root, {**OTHERS, **notes}), embedder=real_embedder
            )
            opened[id(notes)].index()
        return opened[id(notes)]

    yield open_notes
    for library in opened.values():
        library.close()


def first(library: Library, query: str) -> str:
    """Return the name of the first note of an answer with high confidence, or ""."""
    answer = library.query(query)
    if not answer.passages or answer.confidence_level == "low":
        return ""
    return answer.passages[0].path.removesuffix(".md")


# ------------------------------------------------------------------ quotes

QUOTED = {
    "campus.md": "# Campus\n\nThe university opens in October.",
    "charity.md": "# Charity\n\nThe [organizations](organ/list.md) meet on Tuesdays.",
    "relay.md": "# Relay\n\nShe runs tests daily. Later they run other tests.",
    "trial.md": "# Trial\n\nWe run **tests** at dawn.",
    "store.md": "---\naliases: [Filing cabinets]\n---\n# Store\n\nIt is empty.",
    "rubric.md": "# Marking schemes\n\nNothing else stands here.",
    "jardin.md": "# Jardin\n\nLe jardinier donne de l'eau aux fleurs de nos jardins chaque matin, "
    "et les enfants jouent avec les chats dans la cour de la maison.",
    "haus.md": "# Haus am Fluss\n\nDie Häuser stehen am Ufer, und die Kinder spielen dort mit "
    "den Hunden, wenn die Sonne scheint.",
    "книги.md": "# Полка\n\nКниги лежат на столе, и мы читаем их каждый вечер.",
    "東京.md": "# 旅行\n\n東京タワーに行きました。",
    "bar.md": "# Bar\n\nThe Café opens late. Don’t knock.",
}


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ('"university"', {"campus"}),
        ('"universe"', set()),
        ('"organ"', set()),
        ('"organization"', set()),
        ('"run tests"', {"trial"}),
        ('"runs test"', set()),
        ('"filing cabinets"', {"store"}),
        ('"file cabinet"', set()),
        ('"marking schemes"', {"rubric"}),
        ('"marked scheme"', set()),
        ('"eau"', {"jardin"}),
        ('"jardin"', {"jardin"}),
        ('"jardinage"', set()),
        ('"HAUSER"', {"haus"}),
        ('"hause"', set()),
        ('"книги"', {"книги"}),
        ('"книга"', set()),
        ('"東京"', {"東京"}),
        ('"cafe opens"', {"bar"}),
        ('"don\'t knock"', {"bar"}),
        ("“university”", {"campus"}),
    ],
)
def test_quoted_words_match_as_they_are_written(vault: Open, query: str, paths: set[str]) -> None:
    library = vault(QUOTED)
    answer = library.query(query)
    found = {passage.path.removesuffix(".md") for passage in answer.passages}
    if paths:
        assert (found, answer.unmet) == (paths, ())
    else:
        assert [unmet.value for unmet in answer.unmet] == [query.strip('"“”')]
        assert answer.confidence_level == "low"


def test_refusal_shows_only_notes_with_text_that_share_a_word(vault: Open) -> None:
    notes = {f"{n}.md": f"# Recipe {n}\n\nStir the sauce {n} times." for n in range(9)}
    library = vault({**notes, "Helicopter.md": "", "zoo.md": "# Zoo\n\nA zebra eats."})
    question = "exam with a zebra near Bergen, licence"
    answer = library.query(question)
    assert (answer.found, answer.confidence_level) == (False, "low")
    assert [passage.path for passage in answer.passages] == ["zoo.md"]
    assert answer.missing[:2] == ("exam", "near")


def test_phrase_that_no_note_has_is_answered_by_its_words(vault: Open) -> None:
    answer = vault(QUOTED).query('"runs test"')
    assert "trial.md" in [passage.path for passage in answer.passages]


@pytest.mark.parametrize(
    ("query", "excluded", "kept"),
    [
        ("tests -runs", {"relay"}, {"trial"}),
        ("tests -running", set(), {"relay", "trial"}),
        ('tests -"run tests"', {"trial"}, {"relay"}),
        ('tests -"run test"', set(), {"relay", "trial"}),
        ("october university -universe", set(), {"campus"}),
        ("store empty -filings", set(), {"store"}),
        ("store empty -cabinets", {"store"}, set()),
    ],
)
def test_excluded_words_match_as_they_are_written(
    vault: Open, query: str, excluded: set[str], kept: set[str]
) -> None:
    answer = vault(QUOTED).query(query, limit=20)
    found = {passage.path.removesuffix(".md") for passage in answer.passages}
    assert (found & excluded, found & kept) == (set(), kept)


def test_only_the_exact_words_of_a_quoted_phrase_are_marked(vault: Open) -> None:
    library = vault(QUOTED)
    (passage,) = library.query('"tests daily"').passages
    assert [passage.text[start:end] for start, end in passage.marks] == ["tests daily"]


# ------------------------------------------------------------------ apostrophes

APOSTROPHES = {
    "rule.md": "# Rule\n\nDon't feed the geese.",
    "name.md": "# Visitor\n\nMs O'Hara signed for the parcel.",
    "brewer.md": "# Brewer\n\nMr O’Brien brews ale.",
    "island.md": "# Island\n\nThe flight to Hawaiʻi leaves at nine.",
    "swim.md": "# Nage\n\nJe veux qu'il nage aujourd'hui dans l'étang avec les enfants.",
    "object.md": "# Опис\n\nЦей обʼєкт стоїть у полі біля річки.",
    "band.md": "# Band\n\nThey play rock 'n' roll on Fridays.",
    "fort.md": "# Sailor\n\nThe bo's'n is asleep.",
    "typed.md": "# Typed\n\nwe wont sell the loom",
    "shell.md": "# Terminal\n\nA shell runs the script.",
    "novel.md": "# Novel\n\nShe'll write it in spring.",
    "lens.md": "# Optik\n\nSo geht´s mit dem Fernrohr und den Linsen, sagt der Lehrer.",
}


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("dont feed", "rule"),
        ("don’t feed", "rule"),
        ("do'nt feed", "rule"),
        ("DONT FEED", "rule"),
        ("OHara", "name"),
        ("ohara parcel", "name"),
        ("OBrien", "brewer"),
        ("O'Brien", "brewer"),
        ("Hawaii", "island"),
        ("Hawai'i", "island"),
        ("Hawai‘i", "island"),
        ("quil nage", "swim"),
        ("aujourdhui", "swim"),
        ("обєкт", "object"),
        ("об'єкт", "object"),
        ("rock'n'roll", "band"),
        ("rock n roll", "band"),
        ("bo'sun", ""),  # another word
        ("bosn", "fort"),
        ("won't sell", "typed"),
        ("shell script", "shell"),
        ("gehts fernrohr", "lens"),
    ],
)
def test_words_are_found_with_and_without_their_apostrophe(
    vault: Open, query: str, path: str
) -> None:
    library = vault(APOSTROPHES)
    assert first(library, query) == path


def test_word_that_the_notes_use_gets_no_apostrophe(vault: Open) -> None:
    answer = vault(APOSTROPHES).query("shell")
    assert ([passage.path for passage in answer.passages], answer.corrected) == (["shell.md"], None)


# ------------------------------------------------------------------ separators

NUMBERS = {
    "plumber.md": "# Plumber\n\nCall Meier on 030/555-0182 when the boiler drips.",
    "electrician.md": "# Electrician\n\nCall Kunz on (040) 777 2291 at night.",
    "book.md": "# Order\n\nThe book is ISBN 978-3-16-148410-0.",
    "invoice.md": "# Invoice\n\nThe deposit was 1,250 euros; bank DE89 3704 0044 0532 0130 00.",
    "rechnung.md": "# Rechnung\n\nDie Miete beträgt 2.750 Euro, die Kaution 3 890 Euro.",
    "error.md": "# Database\n\nThe import stopped with ORA-00942 on Monday.",
    "plain.md": "# Plain\n\nFax 0891234567, account GB29NWBK60161331926819, fault ora01555.",
    "card.md": "# Card\n\n| card | 4111 1111 1111 1111 |\n| --- | --- |\n| memory | 16 GB |",
    "claim.md": "# Claim\n\nCase INV-2023-0017 is open; code 483-920.",
    "paris.md": "# Paris\n\nLe plombier: 01.23.45.67.89, ou +33 (0)9 87 65 43 21.",
    "india.md": "# Flat\n\nIt costs 12,34,567 rupees, in Geneva 1'350'000.75 francs.",
    "device.md": "# Device\n\n`550e8400-e29b-41d4-a716-446655440000`, MAC 00:1A:2B:3C:4D:5E.",
    "code.md": "# Limits\n\n```python\nLIMIT = 6_500_000\n```\n",
    "tokyo.md": "# 東京\n\n電話は０３－５５５５－０１９９です。",
    "log.md": "# Log\n\nOn 2019-05-01 at 10:30:15, version 10.15.712 and covid-19.",
    "rows.md": "# Rows\n\nRows 1, 250, 1 and 250, then 250 and 1.",
    "score.md": "# Score\n\nIt ended 20-24, then 1/2; version 1.2.3 of the rules.",
}


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("0305550182", "plumber"),
        ("030 5550182", "plumber"),
        ("030-555 0182", "plumber"),
        ("0407772291", "electrician"),
        ("9783161484100", "book"),
        ("978-3161484100", "book"),
        ("1250", "invoice"),
        ("1,250", "invoice"),
        ("1.250 euros", "invoice"),
        ("DE89370400440532013000", "invoice"),
        ("2750", "rechnung"),
        ("3890", "rechnung"),
        ("ORA00942", "error"),
        ("ora 00942", "error"),
        ("ORA-01555", "plain"),
        ("089/123-4567", "plain"),
        ("GB29 NWBK 6016 1331 9268 19", "plain"),
        ("4111111111111111", "card"),
        ("16GB", "card"),
        ("INV20230017", "claim"),
        ("483920", "claim"),
        ("0123456789", "paris"),
        ("330987654321", "paris"),
        ("1234567 rupees", "india"),
        ("1350000.75", "india"),
        ("550E8400E29B41D4A716446655440000", "device"),
        ("001a2b3c4d5e", "device"),
        ("6500000", "code"),
        ("6,500,000", "code"),
        ("0355550199", "tokyo"),
        ("covid19", "log"),
        ("20190501", ""),
        ("103015", ""),
        ("1015712", ""),
        ("2024", ""),
        ("123", ""),
        ("20-24", "score"),
        ("1.2.3", "score"),
    ],
)
def test_numbers_and_codes_are_found_with_and_without_separators(
    vault: Open, query: str, path: str
) -> None:
    assert first(vault(NUMBERS), query) == path


# ------------------------------------------------------------------ signs

SIGNS = {
    "js.md": "# Operators\n\nUse `??` for defaults, `=>` for arrows, `!==` to compare.",
    "haskell.md": "# Binding\n\n```haskell\nmain = getLine >>= putStrLn\n```\n\nand `<$>` maps.",
    "prose.md": "# Logic\n\nWrite a <-> b where both sides agree.",
    "power.md": "# Power\n\n`**` raises in Python.",
    "chain.md": "# Chaining\n\nWrite `user?.name` to be safe.",
    "empty.md": "# Empty\n\nAn empty list is `[]`, the rest of a division `%`.",
    "entity.md": "# Arrow\n\nWrite a -&gt; b for functions.",
    "shell.md": "# Shell\n\n~~~sh\nmake && make install 2>&1 | tee log\n~~~\n",
    "markup.md": "# Markup\n\n> ## Quoted\n\n**Bold** and ~~struck~~.\n\n---\n\n- [ ] open\n\n"
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n[a](b.md)\n",
}


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("=>", "js"),
        ('"??"', "js"),
        ("`!==`", "js"),
        (">>=", "haskell"),
        ("<$>", "haskell"),
        ("<->", "prose"),
        ("**", "power"),
        ("?? =>", "js"),
        ("?.", "chain"),
        ("[]", "empty"),
        ("%", "empty"),
        ("->", "entity"),
        ("&&", "shell"),
        ("“>&”", "shell"),
        ("---", ""),
        ("~~", ""),
        ("](", ""),
        ("|---|", ""),
        ("- [ ]", ""),
        ("<=>", ""),
        ("##", ""),
    ],
)
def test_signs_alone_find_the_notes_that_use_them(vault: Open, query: str, path: str) -> None:
    library = vault(SIGNS)
    assert first(library, query) == path
    if not path:
        assert confidence_sentence(library.query(query)) == (
            f"Nothing found: no note has `{query}` in code or between spaces."
        )


def test_signs_count_beside_words(vault: Open) -> None:
    assert first(vault(SIGNS), "write ->") == "entity"


# ------------------------------------------------------------------ emoji and other symbols

EMOJI = {
    "log.md": "# Log\n\n- [ ] Call the plumber ⏫ 📅 2024-05-01\n- [x] Buy rope ✅ 2024-05-02",
    "launch.md": "# Launch day\n\n🚀launch went well.",
    "hearts.md": "# Valentine\n\nCards with ❤️ on them.",
    "cheer.md": "# Cheer\n\nWell done 👍🏽",
    "team.md": "# Team\n\nOur 👩‍💻 wrote it.",
    "trip.md": "# Trip\n\nBy train through 🇩🇪 in May.",
    "title.md": "# 🌱 Seedlings\n\nPots on the sill.",
    "flag.md": "# Match\n\n🏴󠁧󠁢󠁳󠁣󠁴󠁿 beat them.",
    "price.md": "# Price\n\n€40 for ½ of it.",
    "math.md": "# Sets\n\nx ∈ A ∪ B",
    "family.md": "# Family\n\nAll four: 👨‍👩‍👧‍👦",
    "rocket_word.md": "# Rocket\n\nThe rocket is only a word here.",
    "only.md": "🦩",
    "entity.md": "# Entity\n\nA &#128030; on a leaf",
    "frame.md": "# Frame\n\n```\n┌──┐\n└──┘\n```",
    "stars.md": "# Review\n\n★★★☆ and a ☕",
}


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("⏫", "log"),
        ("✅", "log"),
        ("🚀", "launch"),
        ("❤", "hearts"),
        ("❤️", "hearts"),
        ("👍", "cheer"),
        ("👍🏿", "cheer"),
        ("👩‍💻", "team"),
        ("🇩🇪", "trip"),
        ("🇪🇩", ""),
        ("🌱", "title"),
        ("★", "stars"),
        ("☕ ★", "stars"),
        ("🚀 launch", "launch"),
        ("🏴󠁧󠁢󠁳󠁣󠁴󠁿", "flag"),
        ("€", "price"),
        ("∈", "math"),
        ("👨‍👩‍👧‍👦", "family"),
        ("🦩", "only"),
        ("🐞", "entity"),
        ("🎃", ""),
        ("👎🏽", ""),
        ("🏽", ""),
        ("┌", ""),
    ],
)
def test_an_emoji_alone_finds_the_notes_that_have_it(vault: Open, query: str, path: str) -> None:
    assert first(vault(EMOJI), query) == path


def test_answer_says_which_emoji_no_note_has(vault: Open) -> None:
    assert confidence_sentence(vault(EMOJI).query("🎃")) == "Nothing found: no note has 🎃."


def test_emoji_and_filter_go_together(vault: Open) -> None:
    answer = vault(EMOJI).query("🚀 path:launch.md")
    assert [passage.path for passage in answer.passages] == ["launch.md"]


KEYS = {
    "unsafe.md": "`renderer.unsafe`: whether to render raw markup. It is unsafe.\n",
    "cache.md": "`useCacheWhen`: when the build uses the cache.\n",
    "read.md": "To read, import `std::io::Read` from std.\n",
    "io.md": "`io_read` is in the library that can read.\n",
}


@pytest.mark.parametrize(
    ("notes", "query", "marked"),
    [
        (NUMBERS, "0305550182", ["030/555-0182"]),
        (NUMBERS, "DE89370400440532013000", ["DE89 3704 0044 0532 0130 00"]),
        (NUMBERS, "089/123-4567", ["0891234567"]),
        (APOSTROPHES, "dont feed", ["Don't", "feed"]),
        (EMOJI, "🚀", ["🚀"]),
        (SIGNS, ">>=", [">>="]),
        (SIGNS, "?.", ["?."]),
        (KEYS, "markup.goldmark.renderer.unsafe", ["renderer.unsafe"]),
        (KEYS, "what does build.useCacheWhen do", ["useCacheWhen"]),
        (KEYS, "std::io::Read", ["std::io::Read"]),
        (KEYS, "lib/io_read", ["io_read"]),
    ],
)
def test_other_spellings_are_marked(
    vault: Open, notes: Mapping[str, str], query: str, marked: list[str]
) -> None:
    library = vault(notes)
    passage = library.query(query).passages[0]
    assert [passage.text[start:end] for start, end in passage.marks] == marked


# ------------------------------------------------------------------ names

NAMES = {
    "net.md": "# net\n\nThe fishing net has a hole.",
    "help.md": "# help\n\nAsk the neighbors for a hand.",
    "home.md": "# home\n\nThe house by the lake.",
    "env.md": "# env\n\nThe mood at the office.",
    "path.md": "# path\n\nGravel, from the gate to the shed.",
    "assemblies.md": "# .NET notes\n\nAssemblies.",
    "film.md": "# ... and justice\n\nA film.",
    "@anna.md": "# @anna\n\nShe sings.",
    "¿Qué tal.md": "# ¿Qué tal?\n\nA greeting.",
    "🚀 Launch.md": "# 🚀 Launch\n\nIt went well.",
}


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        (".NET", None),
        ("--help", None),
        ("-help", None),
        ("$HOME", None),
        (".env", None),
        ("%PATH%", None),
        (".net notes", "assemblies"),
        ("net notes", None),
        ("net", "net"),
        ("net.md", "net"),
        ("./net.md", "net"),
        ("HOME", "home"),
        ("and justice", "film"),
        ("anna", "@anna"),
        ("que tal", "¿Qué tal"),
        ("launch", "🚀 Launch"),
    ],
)
def test_signs_before_a_name_are_part_of_it(vault: Open, typed: str, name: str | None) -> None:
    answer = vault(NAMES).query(typed, explain=True)
    named = [
        passage.path
        for passage in answer.passages
        if passage.explanation and passage.explanation.name_kind
    ]
    assert named == ([] if name is None else [f"{name}.md"])
