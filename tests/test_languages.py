"""Words of every script are found without vectors; the bundled model reads only English."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from folders import write_notes
from thumbindex.library import Library

NOTES = {
    "ja/1.md": (
        "# ファイルの復元\n\n削除したファイルは三十日以内なら復元できます。\n\n"
        "## サーバーへの接続\n\nポート番号を確認します。\n"
    ),
    "ja/2.md": "# ペットの世話\n\n黒猫は夜に元気です。猫に水を与えます。\n",
    "ja/3.md": (
        "# 画像の貼り付け\n\nノートにｽｸﾘｰﾝｼｮｯﾄを貼り付けます。関数getUserByIdを使用します。\n"
    ),
    "ja/4.md": "# 全文検索\n\n人々が書いた文章を探します。ユーザーインターフェースは簡単です。\n",
    "zh/1.md": (
        "# 备份笔记\n\n您可以把笔记库备份到云端。误删的文件可以恢复。\n\n"
        "## 同步冲突\n\n两台设备同时编辑时，使用--force选项覆盖。\n"
    ),
    "zh/2.md": "# 安装插件\n\n在设置中打开社区插件市场，点击安装按钮。茶很好喝。\n",
    "zh/3.md": "# 快捷键\n\n按Ctrl加P打开命令面板。\n",
    "ko/1.md": "# 노트 검색\n\n검색창에서 노트를 찾을 수 있습니다. 데이터베이스를 백업하세요.\n",
    "ko/2.md": "# 독서 기록\n\n책을 읽고 감상을 적습니다. 물은 하루에 여덟 잔 마십니다.\n",
    "de/1.md": (
        "# Übersicht der Geräte\n\nDie Größe der Straße ändert sich nicht. Schließen Sie das "
        "Fenster. Herr Müller hilft.\n"
    ),
    "fr/1.md": (
        "# Résumé des réglages\n\nLa clé d'accès protège l'élève. Œuvre complète à côté du "
        "château.\n"
    ),
    "es/1.md": "# Búsqueda avanzada\n\nEl año próximo la contraseña caducará.\n",
    "ru/1.md": (
        "# Восстановление файлов\n\nУдалённые заметки можно вернуть из корзины. Ёлка зелёная.\n"
    ),
    "en/1.md": "# Café culture\n\nSend your résumé to the naïve owner. Łódź is near Ærø.\n",
    "en/2.md": "# Tokyo 東京 guide\n\nVisit 東京tower and use APIキー for access.\n",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    root = write_notes(tmp_path_factory.mktemp("languages") / "vault", NOTES)
    with Library.open([root], index=root.parent / "index", wait_for_models=False) as library:
        library.index(complete=False)
        yield library


def first(library: Library, text: str) -> str:
    return next((passage.path for passage in library.query(text).passages), "")


@pytest.mark.parametrize(
    ("path", "queries"),
    [
        (
            "ja/1.md",
            "復元 ファイル復元 削除したファイルを元に戻す サーバ サーバー接続 ｻｰﾊﾞｰ ポート番号",
        ),
        ("ja/2.md", "猫 水 黒猫 “黒猫は夜”"),
        ("ja/3.md", "スクリーンショット getUserById 関数getUserById"),
        ("ja/4.md", "人々 ユーザインタフェース “全文検索” ＂文章を探＂ 全文検索"),
        ("zh/1.md", "备份 误删文件恢复 --force 同步冲突 使用--force"),
        ("zh/2.md", "茶 怎么安装插件 “社区插件”"),
        ("zh/3.md", "Ctrl 命令面板"),
        ("ko/1.md", "검색 검색을 데이터베이스 \u1100\u1165\u11b7\u1109\u1162\u11a8"),
        ("ko/2.md", "책 책은 물 물이 독서는"),
        (
            "de/1.md",
            (
                "Übersicht ubersicht U\u0308bersicht Uebersicht Strasse STRASSE Groesse Mueller "
                "muller schliessen"
            ),
        ),
        ("fr/1.md", "resume-des-reglages oeuvre œuvre chateau élève"),
        ("es/1.md", "busqueda contrasena año ano"),
        ("ru/1.md", "файл файлы заметка удаленная елка ЁЛКА"),
        ("en/1.md", "resume-owner naive lodz aero cafe Café"),
        ("en/2.md", "東京 tower 東京tower APIキー api"),
    ],
)
def test_note_is_found_by_its_words_in_any_spelling(
    library: Library, path: str, queries: str
) -> None:
    assert {query: first(library, query) for query in queries.split()} == dict.fromkeys(
        queries.split(), path
    )


def test_korean_words_match_with_and_without_spaces(library: Library) -> None:
    assert first(library, "데이터 베이스") == "ko/1.md"


@pytest.mark.parametrize("text", ["宇宙飛行士の訓練", "量子力学", "화성 탐사선", "蒸気機関車"])
def test_unanswerable_query_finds_nothing_in_any_script(library: Library, text: str) -> None:
    assert (library.query(text).found, first(library, text)) == (False, "")


@pytest.mark.parametrize("text", ["復原", "검섹", "备分", "getUserByIdの", "ポート香号"])
def test_cjk_characters_are_never_corrected(library: Library, text: str) -> None:
    assert library.query(text).corrected is None


def test_match_contains_the_queried_characters(library: Library) -> None:
    assert "ポート番号" in library.query("ポート番号").passages[0].match


# ---------------------------------------------------------- inflection in other languages

SET = Path(__file__).parent / "languages"
"""48 German, French and Spanish notes and 78 queries: inflected, reworded, with and without
accents.
"""


@pytest.fixture(scope="module")
def household(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with Library.open(
        [SET], index=tmp_path_factory.mktemp("household"), wait_for_models=False
    ) as library:
        library.index(complete=False)
        yield library


def test_inflected_reworded_and_unaccented_queries_rank_their_note_first(
    household: Library,
) -> None:
    queries = [
        json.loads(line)
        for line in (SET / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    missed = {
        query["query"]
        for query in queries
        if first(household, query["query"]) != query["relevant"][0]["path"]
    }
    assert missed <= {
        "ich kann mich nicht mehr einloggen",
        "druckauftrag abbrechen",
        "Ohr schmerzt",
        "arrosage de la tomate",
    }


@pytest.mark.parametrize(
    ("phrase", "is_written"),
    [
        ("„Belege das ganze Jahr“", True),
        ('"tranches de pain grille"', True),
        ("„Beleg das ganze Jahr“", False),
        ('"tranche de pain grillé"', False),
    ],
)
def test_phrase_is_found_only_as_it_is_written(
    household: Library, phrase: str, is_written: bool
) -> None:
    answer = household.query(phrase)
    assert (answer.unmet == (), answer.confidence_level == "high") == (is_written, is_written)


def test_function_words_are_not_query_terms(household: Library) -> None:
    explained = household.query("comment gonfler la roue du vélo", explain=True)
    assert set(explained.passages[0].explanation.terms) == {"gonfler", "roue", "velo"}
