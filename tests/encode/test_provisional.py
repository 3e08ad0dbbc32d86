"""Provisional vectors, and the program that fits their table."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from thumbindex.encode.embed import open_embedder, open_tokenizer
from thumbindex.encode.models import BUNDLED_FOLDER
from thumbindex.encode.provisional import TABLE, TokenCounter, TokenTable
from thumbindex.settings import EmbedSettings

PROGRAM = Path(__file__).parents[2] / "scripts" / "build_table.py"

PERMISSIVE = {"MIT", "Apache-2.0", "CC-BY-3.0", "CC-BY-4.0", "CC0-1.0", "public domain"}

PASSAGES = (
    "Garden > Watering\n\nWater tomatoes in the morning, close to the roots, and keep leaves dry.",
    "Backups > Restore\n\nStop the service, copy the newest snapshot into place, and start again.",
    "Meeting on 3 May\n\nAnna presents the budget. We postpone the hiring plan until June.",
    "Deployment > Rollback\n\nRun `kubectl rollout undo` to return to the last image.",
    "Sourdough\n\nMix flour, water and salt. Let the dough rest for four hours, then shape a loaf.",
    "Stoics > Seneca\n\nWe suffer more often in imagination than in reality.",
)

OTHER_TEXTS = (
    "Größe > Maße\n\nDie Länge beträgt 25 °C – naïve café…",
    "安装 > 依赖\n\n首先安装依赖,然后运行 `make test`。",
    "Привет\n\nКак дела? 👍 e\u0301 ﬁ",
    "no heading, and tabs\tor\u00a0other spaces",
    "word " * 400,
    "x" * 300 + " unknown",
)


@pytest.fixture(scope="module")
def table() -> TokenTable:
    return TokenTable()


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("build_table", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folders(tmp_path):
    for number, passage in enumerate(PASSAGES + OTHER_TEXTS):
        path = tmp_path / f"source {number % 2}" / f"{number}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# {passage}\n", encoding="utf-8")
    (tmp_path / "source 0" / "latin-1.txt").write_bytes("naïve".encode("latin-1"))
    return [tmp_path / "source 0", tmp_path / "source 1"]


def test_provisional_vectors_are_near_the_vectors_of_the_model(table):
    exact = open_embedder(EmbedSettings(), offline=True).embed_passages(PASSAGES)
    cosines = (table.embed(PASSAGES) * exact).sum(axis=1)
    assert cosines.min() > 0.5
    assert cosines.mean() > 0.65


@pytest.mark.parametrize("text", ["", "\n\n", *OTHER_TEXTS])
def test_each_text_has_a_unit_vector_whatever_is_beside_it(table, text):
    (alone,) = table.embed([text])
    assert np.linalg.norm(alone) == pytest.approx(1, abs=1e-5)
    assert (table.embed([PASSAGES[0], text])[1] == alone).all()


@pytest.mark.parametrize("text", [*PASSAGES, *OTHER_TEXTS])
def test_tokens_are_those_that_the_model_reads(text):
    tokenizer = open_tokenizer(BUNDLED_FOLDER / "tokenizer.json", 256)
    assert TokenCounter().ids(text) == tokenizer.encode(text).ids[1:-1]


def test_heading_counts_twice():
    counter = TokenCounter()
    tokens, weights = counter.weights("garden\n\ngarden water")
    counts = dict(zip(tokens.tolist(), weights.tolist(), strict=True))
    (garden,), (water,) = counter.ids("garden"), counter.ids("water")
    assert counts == {garden: pytest.approx(np.log(4)), water: pytest.approx(np.log(2))}


def test_program_reads_each_folder_in_turn_and_skips_what_is_not_utf_8(program, folders):
    texts = program.read_texts(folders, 100)
    assert len(texts) == len(set(texts)) >= len(PASSAGES)
    assert texts == program.read_texts(folders, 100)
    assert texts[:4] == program.read_texts(folders, 4)
    assert not any("naïve" in text and "25" not in text for text in texts)


@pytest.mark.long
def test_program_gives_the_same_bytes_twice_and_fits_the_vectors(program, folders, table):
    texts = program.read_texts(folders, 100)
    first, again = (program.build_table(texts, table.embed) for _ in range(2))
    assert first.tobytes() == again.tobytes()
    np.save(folders[0] / TABLE, first)
    cosines = (TokenTable(folders[0] / TABLE).embed(texts) * table.embed(texts)).sum(axis=1)
    assert cosines.mean() > 0.9


def test_origins_name_the_license_of_each_source():
    page = (BUNDLED_FOLDER / "ORIGINS.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) >= 20
    assert {row[2] for row in rows} <= {
        "MIT",
        "Apache-2.0",
        "CC-BY-4.0",
        "CC-BY-3.0",
        "CC0-1.0",
        "public domain",
    }
