"""What an answer says of copies and of texts that disagree, on every surface."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from thumbindex.library import Library
from thumbindex.library.reading import with_true_places
from thumbindex.model import Disagreement, Passage, Place, Step
from thumbindex.query.pipeline import STAGES
from thumbindex.serve.answers import print_answer
from thumbindex.serve.as_json import answer_payload
from thumbindex.serve.replies import reply_query
from thumbindex.serve.wording import DEDUPLICATING, also_in, beside, deduplication
from thumbindex.testing import FakeEmbedder

TEXT = "Every night the server copies all files to the second disk and keeps them for {} days."
NOTES = {
    "a.md": (
        "---\nstatus: approved\nowner: Ada\ncreated: 2024-01-01\ndate: 2024-01-01\n---\n"
        f"# Backups\n\n{TEXT.format(30)}\n"
    ),
    "copy.md": (
        f"---\nstatus: draft\nowner: Bo\ndate: 2025-01-01\n---\n# Backups\n\n{TEXT.format(30)}\n"
    ),
    "new.md": f"---\ndate: 2026-01-01\n---\n# Backups\n\n{TEXT.format(90)}\n",
}
SCHEMA = Path(__file__).parents[2] / "docs" / "schema" / "query.json"
DENIED = {
    "English": (
        "Every night the server copies all files to the disk, and the key is kept in the safe.",
        "is kept",
        "is not kept",
        "not",
    ),
    "German": (
        "Jede Nacht kopiert der Server alle Dateien, und der Schlüssel liegt im Tresor.",
        "liegt im",
        "liegt nicht im",
        "nicht",
    ),
    "German, no": (
        "Jede Nacht schreibt der Server eine Kopie auf die zweite Platte im Keller.",
        "eine Kopie",
        "keine Kopie",
        "keine",
    ),
    "French": (
        "Chaque nuit le serveur copie tous les fichiers, et la clé est gardée au coffre.",
        "est gardée",
        "n'est pas gardée",
        "pas",
    ),
    "French, no": (
        "Chaque nuit le serveur écrit une copie sur le second disque.",
        "écrit une copie",
        "n’écrit pas de copie",
        "pas",
    ),
    "Spanish": (
        "Cada noche el servidor copia todos los archivos, y la llave se guarda aquí.",
        "se guarda",
        "nunca se guarda",
        "nunca",
    ),
    "Spanish, without": (
        "Cada noche los invitados entran con contraseña en la red.",
        "con contraseña",
        "sin contraseña",
        "sin",
    ),
    "Italian": (
        "Ogni notte il server copia tutti i file, e la chiave si trova in cassaforte.",
        "si trova",
        "non si trova",
        "non",
    ),
    "Italian, none": (
        "Ogni notte il server scrive un'altra copia sul secondo disco.",
        "scrive un'altra",
        "non scrive nessun'altra",
        "nessun",
    ),
    "Portuguese": (
        "Cada noite o servidor copia os arquivos, e a chave é guardada no cofre.",
        "é guardada",
        "não é guardada",
        "não",
    ),
    "Dutch": (
        "Elke nacht kopieert de server alle bestanden, en de sleutel ligt in de kluis.",
        "ligt in",
        "ligt niet in",
        "niet",
    ),
    "Swedish": (
        "Varje natt kopierar servern alla filer, och nyckeln ligger i skåpet.",
        "ligger i",
        "ligger inte i",
        "inte",
    ),
    "Danish": (
        "Hver nat kopierer serveren alle filer, og nøglen ligger i skabet.",
        "ligger i",
        "ligger ikke i",
        "ikke",
    ),
    "Polish": (
        "Każdej nocy serwer kopiuje pliki zespołu na drugi dysk.",
        "kopiuje pliki",
        "nie kopiuje plików",
        "nie",
    ),
    "Russian": (
        "Каждую ночь сервер копирует все файлы, и ключ хранится в сейфе.",
        "ключ хранится",
        "ключ не хранится",
        "не",
    ),
}
"""By language: a text, what is denied in the other note, how, and the word that is to be named."""

UNKNOWN = {
    "Chinese": (
        "服务器每天晚上把所有文件复制到第二块硬盘，钥匙保存在保险箱里。",
        "钥匙保存",
        "钥匙不保存",
    ),
    "Korean": (
        "서버는 매일 밤 모든 파일을 두 번째 디스크에 복사하며 열쇠는 금고에 보관합니다.",
        "금고에 보관",
        "금고에 안 보관",
    ),
    "Greek": (
        "Κάθε βράδυ ο διακομιστής αντιγράφει τα αρχεία, και το κλειδί φυλάσσεται εδώ.",
        "κλειδί φυλάσσεται",
        "κλειδί δεν φυλάσσεται",
    ),
}


@pytest.fixture(scope="module")
def denied(tmp_path_factory: pytest.TempPathFactory) -> Library:
    root = tmp_path_factory.mktemp("denied")
    for language, (text, said, otherwise, *_) in {**DENIED, **UNKNOWN}.items():
        (root / f"{language} office.md").write_text(f"# {language}\n\n{text}\n", encoding="utf-8")
        (root / f"{language} branch.md").write_text(
            f"# {language}\n\n{text.replace(said, otherwise)}\n", encoding="utf-8"
        )
    library = Library.open([root], index=tmp_path_factory.mktemp("index"), embedder=FakeEmbedder())
    library.index()
    return library


@pytest.fixture(scope="module")
def backups(tmp_path_factory: pytest.TempPathFactory) -> Library:
    root = tmp_path_factory.mktemp("backups")
    for path, text in NOTES.items():
        (root / path).write_text(text, encoding="utf-8")
    library = Library.open([root], index=tmp_path_factory.mktemp("index"), embedder=FakeEmbedder())
    library.index()
    return library


def found(library: Library) -> dict[str, Any]:
    payload = answer_payload(library.query("server copies all files every night"))
    jsonschema.validate(payload, json.loads(SCHEMA.read_text(encoding="utf-8")))
    return {each["path"]: each for each in payload["results"]}


def test_a_merged_text_comes_once_with_the_careful_facts_of_all_places(backups: Library) -> None:
    results = found(backups)
    (kept,) = (each for path, each in results.items() if path != "new.md")
    assert kept["dedup"] == {"is_duplicate": False, "cluster_size": 2}
    assert (kept["created"], kept["status"], kept["owner"]) == ("2024-01-01", "draft", "Bo")
    assert len(kept["also_in"]) == 1


def test_two_texts_that_disagree_name_each_other_with_date_and_words(backups: Library) -> None:
    results = found(backups)
    (other,) = results["new.md"]["disagrees"]
    assert (other["path"], other["differs"]) == (
        next(path for path in results if path != "new.md"),
        "`90 day` against `30 day`",
    )
    assert other["date"] in {"2024-01-01", "2025-01-01"}


@pytest.mark.parametrize("language", {**DENIED, **UNKNOWN})
def test_two_notes_that_differ_by_a_negation_are_never_one_text_in_any_language(
    denied: Library, language: str
) -> None:
    text = {**DENIED, **UNKNOWN}[language][0]
    passages = {each.path: each for each in denied.query(text, path=[f"{language} *.md"]).passages}
    assert sorted(passages) == [f"{language} branch.md", f"{language} office.md"]
    assert [(each.also_in, each.cluster_size) for each in passages.values()] == [((), 1), ((), 1)]
    assert denied.duplicates().merged == 0


@pytest.mark.parametrize("language", DENIED)
def test_a_negation_is_told_as_a_contradiction_in_eleven_languages(
    denied: Library, language: str
) -> None:
    text, *_, word = DENIED[language]
    passages = {each.path: each for each in denied.query(text, path=[f"{language} *.md"]).passages}
    (here,), (there,) = (
        passages[f"{language} {place}.md"].disagrees for place in ("office", "branch")
    )
    assert (here.place.path, there.place.path) == (f"{language} branch.md", f"{language} office.md")
    assert f"nothing against `{word}`" in here.differs
    assert f"`{word}` against nothing" in there.differs


def test_the_text_for_agents_says_that_these_two_disagree(backups: Library) -> None:
    reply = reply_query(backups, {"query": "server copies all files every night", "explain": True})
    assert (
        "these two disagree: `30 day` against `90 day` in new.md (line 6, 2026-01-01)" in reply.text
    )
    assert "\ndeduplication: 3 → 2 candidates (33% taken out as copies)\n" in reply.text
    assert reply.structured["deduplication"] == {
        "in": 3,
        "out": 2,
        "ratio": 0.3333,
        "warning": False,
    }


def test_every_structured_result_says_what_it_stands_for(backups: Library) -> None:
    results = reply_query(backups, {"query": "server copies all files every night"}).structured[
        "results"
    ]
    assert sorted(each["dedup"]["cluster_size"] for each in results) == [1, 2]
    assert [len(each["disagrees"]) for each in results] == [1, 1]


def test_the_command_line_says_it_in_the_same_words(
    backups: Library, capsys: pytest.CaptureFixture[str]
) -> None:
    print_answer(
        backups.query("server copies all files every night"),
        dict(backups.folders),
        full=True,
        explain=True,
    )
    shown = capsys.readouterr().out
    assert shown.count("these two disagree: ") == 2
    assert "deduplication: 3 → 2 candidates (33% taken out as copies)" in shown
    assert "created 2024-01-01, status draft, owner Bo" in shown


def test_a_short_answer_names_copies_and_what_disagrees(
    backups: Library, capsys: pytest.CaptureFixture[str]
) -> None:
    print_answer(backups.query("server copies all files every night"), dict(backups.folders))
    shown = capsys.readouterr().out
    assert shown.count("these two disagree: ") == 2
    assert shown.count("\n   also in: ") == 1
    assert max(map(len, shown.splitlines())) <= 80


def test_the_stages_that_are_counted_are_stages_in_the_order_of_the_run() -> None:
    assert [name for name, _ in STAGES if name in DEDUPLICATING] == list(DEDUPLICATING)


@pytest.mark.parametrize(
    ("came", "left", "warned"), [(10, 10, False), (10, 7, False), (10, 6, True), (9, 5, False)]
)
def test_only_a_ratio_above_thirty_percent_of_more_than_a_few_is_warned_of(
    came: int, left: int, warned: bool
) -> None:
    trace = (
        Step("variants", came, 9, 0, 0.0),
        Step("dedup_semantic", 9, left, 0, 0.0),
        Step("diversify", left, 1, 0, 0.0),
    )
    assert ("more than 30 %" in deduplication(trace)) is warned


def test_where_nothing_was_compared_nothing_was_taken_out() -> None:
    assert deduplication(()) == "deduplication: 0 → 0 candidates (0% taken out as copies)"


def test_a_long_list_of_copies_is_counted() -> None:
    assert (
        also_in([Place("v", f"{n}.md", 1, 2) for n in range(12)])
        == "0.md (lines 1-2), 1.md (lines 1-2), 2.md (lines 1-2) and 9 more"
    )


def test_places_of_a_text_are_few_true_and_each_named_once(tmp_path: Path) -> None:
    root, other = (
        tmp_path / "notes",
        "Trees grow in spring, when rain is warm and birds come back to the garden.",
    )
    root.mkdir()
    for name in "abcdef":
        (root / f"{name}.md").write_text(f"# Note\n\n{TEXT.format(30)}\n", encoding="utf-8")
    (root / "twice.md").write_text(
        f"# Note\n\n{TEXT.format(30)}\n\n{other}\n\n## Again\n\n{TEXT.format(30)}\n",
        encoding="utf-8",
    )
    with Library.open([root], index=tmp_path / "index", embedder=FakeEmbedder()) as library:
        library.index()
        before = reply_query(library, {"query": "server copies all files", "limit": 1}).structured[
            "results"
        ][0]
        (root / "c.md").write_text("# Note\n\nNothing of that any more.\n", encoding="utf-8")
        (root / "d.md").write_text(
            f"---\nprivate: true\n---\n# Note\n\n{TEXT.format(30)}\n", encoding="utf-8"
        )
        (root / "e.md").unlink()
        os.utime(root / "b.md")
        (passage,) = library.query("server copies all files", limit=1).passages
    assert (len(before["also_in"]), before["also_in_more"], before["dedup"]["cluster_size"]) == (
        3,
        3,
        7,
    )
    places = [each.path for each in (passage, *passage.also_in)]
    assert sorted(places) == ["a.md", "b.md", "f.md", "twice.md"]
    assert passage.cluster_size == 4


def test_lines_of_one_note_that_stand_next_to_each_other_are_one_place() -> None:
    places = (
        Place("v", "b.md", 5, 6),
        Place("v", "b.md", 1, 3),
        Place("v", "b.md", 20, 22),
        Place("v", "a.md", 4, 9),
        Place("v", "c.md", 1, 1),
    )
    passage = Passage(
        1, "v", "a.md", "A", ("A",), 1, 5, 1, 2, 0.5, "text", also_in=places, cluster_size=6
    )
    (found,) = with_true_places([passage], [])
    assert found.also_in == (
        Place("v", "b.md", 1, 6),
        Place("v", "b.md", 20, 22),
        Place("v", "c.md", 1, 1),
    )
    assert found.cluster_size == 4


def test_a_passage_of_one_place_that_nobody_disagrees_with_says_its_day_and_nothing_more() -> None:
    alone = Passage(
        1, "v", "a.md", "A", ("A",), 1, 2, 1, 2, 0.5, "text", created="2024-01-01", owner="Ada"
    )
    said = Passage(
        1,
        "v",
        "a.md",
        "A",
        ("A",),
        1,
        2,
        1,
        2,
        0.5,
        "text",
        disagrees=(Disagreement(Place("v", "b.md", 3, 4), "2026-01-01", "x"),),
    )
    assert (beside(alone), beside(said)) == (
        ["dated 2024-01-01"],
        ["these two disagree: x in b.md (lines 3-4, 2026-01-01)"],
    )
