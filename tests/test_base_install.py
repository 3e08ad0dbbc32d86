"""What works where the base install is all there is: each test's programs find no module of
another package, whatever is installed here.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from importlib.metadata import packages_distributions

import pytest
from packaging.utils import canonicalize_name

from folders import write_notes
from servers import ServerProcess
from test_lock import LOCKED
from thumbindex.encode.embed import TorchEmbedder, open_embedder
from thumbindex.encode.models import BUNDLED_FOLDER, read_card
from thumbindex.errors import ModelError, install_hint
from thumbindex.settings import EmbedSettings

BASE = {canonicalize_name(name) for name in ("thumbindex", "pip", "setuptools", *LOCKED)}
"""What the base install consists of."""

EXTRAS = {
    module
    for module, packages in packages_distributions().items()
    if not BASE & set(map(canonicalize_name, packages))
}
"""The modules of everything else that is installed here."""

EXTRAS |= set("torch transformers sentence_transformers scipy sklearn sympy onnx psycopg".split())

NOT_SERVED_OPTIONS = f"""
import sys
from importlib.machinery import PathFinder

EXTRAS = {sorted(EXTRAS)}
TRIED = set()

class BaseFinder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS or name == "thumbindex.postgres.database":
            TRIED.add(name)
            return None
        return super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = BaseFinder
"""
"""What each Python of a test runs first, those that a server starts too: it finds what the base
install brings and nothing else.
"""

REMEDY = (
    f"needs the extra `models`: {install_hint('models')}. Without a GPU, first install torch's "
    "build for CPUs."
)

NOTES = {
    "cellar.md": "# Apples\n\nKeep fruit in a cool and dark room under the house.\n",
    "car.md": "# The car\n\nThe brakes were repaired in spring by the garage in town.\n",
    "tax.md": "# Taxes\n\nThe declaration of income is due in July.\n",
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Give the programs of a test an empty home, no network to ask for, and none of the extra."""
    for name in ("home", "alone"):
        (tmp_path / name).mkdir()
    (tmp_path / "alone/sitecustomize.py").write_text(NOT_SERVED_OPTIONS, encoding="utf-8")
    for name in [name for name in os.environ if name.startswith(("XDG_", "HF_", "THUMBINDEX"))]:
        monkeypatch.delenv(name)
    changes = {
        "HOME": tmp_path / "home",
        "USERPROFILE": tmp_path / "home",
        "XDG_CACHE_HOME": tmp_path / "cache",
        "HF_HUB_OFFLINE": 1,
        "PYTHONPATH": tmp_path / "alone",
    }
    for name, value in changes.items():
        monkeypatch.setenv(name, str(value))


@pytest.fixture
def notes(tmp_path):
    return write_notes(tmp_path / "notes", NOTES)


def run(script, *arguments):
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


CLI = "import sys; sys.argv[0] = 'thumbindex'; from thumbindex.__main__ import main; main()"


def test_a_question_is_answered_by_meaning_in_an_empty_home(notes, home, tmp_path):
    index = tmp_path / "index"
    assert run(CLI, "index", "--folder", notes, "--index", index).returncode == 0
    done = run(
        CLI,
        "query",
        "--folder",
        notes,
        "--index",
        index,
        "--json",
        "where does produce stay fresh below my home?",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["results"][0]["path"] == "cellar.md"


def test_opening_the_bundled_model_imports_none_of_the_extra_and_writes_no_graph(home, tmp_path):
    script = """
from thumbindex.encode.embed import open_embedder
from thumbindex.settings import EmbedSettings
open_embedder(EmbedSettings(), offline=True).embed_query("vault")
from sitecustomize import TRIED
print(sorted(TRIED))
"""
    done = run(script)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
    assert not list(tmp_path.rglob("*.onnx"))


def repository(tmp_path, graph="onnx/model.onnx"):
    """Lay out a folder as a model of the hub that ships ONNX."""
    folder = shutil.copytree(BUNDLED_FOLDER, tmp_path / "repository")
    (folder / graph).parent.mkdir(exist_ok=True)
    for ending in ("", ".data"):
        (folder / f"model.onnx{ending}").rename(folder / f"{graph}{ending}")
    return folder


@pytest.mark.parametrize("graph", ["onnx/model.onnx", "model.onnx"])
def test_a_folder_that_ships_onnx_needs_no_extra(graph, home, tmp_path):
    script = """
import sys
from thumbindex.encode.embed import open_embedder
from thumbindex.settings import EmbedSettings
here, bundled = (
    open_embedder(EmbedSettings(model=name), offline=True)
    for name in (sys.argv[1], "auto")
)
print(
    (here.embed_query("vault") == bundled.embed_query("vault")).all(),
    here.fingerprint == bundled.fingerprint,
    here.dimensions,
)
"""
    done = run(script, repository(tmp_path, graph))
    # the path of the graph is part of what a model is known by: a repository's own layout does not
    # change
    assert (done.stdout.split(), done.stderr) == (["True", str(graph == "model.onnx"), "384"], "")


def test_a_file_that_is_no_graph_is_refused_in_a_sentence(tmp_path):
    folder = repository(tmp_path)
    (folder / "onnx/model.onnx").write_bytes(b"half a graph")
    with pytest.raises(ModelError, match=r"onnxruntime cannot open .*model\.onnx"):
        open_embedder(EmbedSettings(model=str(folder)), offline=True)


def test_onnx_alone_does_not_run_in_torch(tmp_path):
    card = read_card(repository(tmp_path), "mine", torch=True)
    with pytest.raises(
        ModelError,
        match=(
            r"mine has no torch weights, only ONNX\. "
            r"Use `--set encode\.embed\.runtime=onnx`"
        ),
    ):
        TorchEmbedder(card)


@pytest.fixture
def weights_only(tmp_path):
    """Make a folder that reads like a model for torch."""
    folder = tmp_path / "weights"
    folder.mkdir()
    for name in ("config.json", "sentence_bert_config.json", "tokenizer.json"):
        shutil.copyfile(BUNDLED_FOLDER / name, folder / name)
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.mark.parametrize("setting", ["model", "runtime", "rerank"])
def test_what_needs_the_extra_says_so_in_a_sentence(setting, notes, weights_only, home, tmp_path):
    settings = {
        "model": [f"encode.embed.model={weights_only}"],
        "runtime": ["encode.embed.runtime=torch"],
        "rerank": ["encode.rerank.model=someone/a-reranker", "query.skip=[]"],
    }[setting]
    chosen = [part for each in settings for part in ("--set", each)]
    index = ["--folder", notes, "--index", tmp_path / "index"]
    first = run(CLI, "index", *index, *chosen)
    done = (
        run(CLI, "query", *index, *chosen, "where do apples stay fresh?")
        if setting == "rerank"
        else first
    )
    printed = " ".join((done.stdout + done.stderr).split())
    assert "Traceback" not in printed
    assert REMEDY in printed


@pytest.mark.slow
def test_a_server_whose_model_needs_the_extra_answers_by_words(notes, weights_only, home, tmp_path):
    run(CLI, "index", "--folder", notes, "--index", tmp_path / "index", "--words-only")
    arguments = (
        "serve",
        "--folder",
        str(notes),
        "--index",
        str(tmp_path / "index"),
        "--set",
        f"encode.embed.model={weights_only}",
    )
    with ServerProcess([], (sys.executable, "-c", CLI, *arguments)) as server:
        found = server.call("query", query="brakes repaired")
        ends = time.monotonic() + 20
        while (
            REMEDY
            not in (
                told := json.dumps(
                    server.request("tools/call", {"name": "status", "arguments": {}})
                )
            )
            and time.monotonic() < ends
        ):
            time.sleep(0.2)  # the model is opened behind the first answers
    assert found["results"][0]["path"] == "car.md"
    assert REMEDY in told


def test_the_package_and_the_handshake_import_none_of_it(notes, home):
    done = run(
        "import thumbindex, thumbindex.mcp.server; from sitecustomize import TRIED; "
        # which the client of HTTP takes for zstd, if it is there
        "print(sorted(TRIED - {'backports'}))"
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
