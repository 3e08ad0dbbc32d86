"""The base install: the programs of these tests find no module of an extra."""

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
from servers import ServerProcess, path_of
from test_lock import LOCKED
from thumbindex.encode.embed import TorchEmbedder, open_embedder
from thumbindex.encode.models import BUNDLED_FOLDER, read_card
from thumbindex.errors import ModelError, install_hint
from thumbindex.settings import EmbedSettings

pytestmark = pytest.mark.slow

BASE = {canonicalize_name(name) for name in ("thumbindex", "pip", "setuptools", *LOCKED)}
"""Packages of the base install."""

EXTRAS = {
    module
    for module, packages in packages_distributions().items()
    if not BASE & set(map(canonicalize_name, packages))
}
"""Modules of all other installed packages."""

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
"""Startup code of every Python process of a test: hides modules outside the base install."""

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
    """Run the programs of a test with an empty home, offline, and without extras."""
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


def test_vector_search_works_with_an_empty_home(notes, home, tmp_path):
    index = tmp_path / "index"
    assert run(CLI, "index", "--folder", notes, "--index", index).returncode == 0
    result = run(
        CLI,
        "query",
        "--folder",
        notes,
        "--index",
        index,
        "--json",
        "where does produce stay fresh below my home?",
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["results"][0]["path"] == "cellar.md"


def test_bundled_model_imports_no_extra_and_writes_no_graph(home, tmp_path):
    script = """
from thumbindex.encode.embed import open_embedder
from thumbindex.settings import EmbedSettings
open_embedder(EmbedSettings(), offline=True).embed_query("vault")
from sitecustomize import TRIED
print(sorted(TRIED))
"""
    result = run(script)
    assert (result.stdout.strip(), result.stderr) == ("[]", "")
    assert not list(tmp_path.rglob("*.onnx"))


def repository(tmp_path, graph="onnx/model.onnx"):
    """Make a folder like a hub model that ships ONNX."""
    folder = shutil.copytree(BUNDLED_FOLDER, tmp_path / "repository")
    (folder / graph).parent.mkdir(exist_ok=True)
    for ending in ("", ".data"):
        (folder / f"model.onnx{ending}").rename(folder / f"{graph}{ending}")
    return folder


@pytest.mark.parametrize("graph", ["onnx/model.onnx", "model.onnx"])
def test_model_folder_with_onnx_needs_no_extra(graph, home, tmp_path):
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
    result = run(script, repository(tmp_path, graph))
    # the path of the graph is part of the fingerprint
    assert (result.stdout.split(), result.stderr) == (
        ["True", str(graph == "model.onnx"), "384"],
        "",
    )


def test_invalid_graph_file_is_refused(tmp_path):
    folder = repository(tmp_path)
    (folder / "onnx/model.onnx").write_bytes(b"half a graph")
    with pytest.raises(ModelError, match=r"onnxruntime cannot open .*model\.onnx"):
        open_embedder(EmbedSettings(model=str(folder)), offline=True)


def test_model_with_only_onnx_is_refused_by_torch(tmp_path):
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
    """Make a folder that looks like a torch model."""
    folder = tmp_path / "weights"
    folder.mkdir()
    for name in ("config.json", "sentence_bert_config.json", "tokenizer.json"):
        shutil.copyfile(BUNDLED_FOLDER / name, folder / name)
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.mark.parametrize("setting", ["model", "runtime", "rerank"])
def test_error_names_the_missing_extra(setting, notes, weights_only, home, tmp_path):
    settings = {
        "model": [f"encode.embed.model={weights_only}"],
        "runtime": ["encode.embed.runtime=torch"],
        "rerank": ["encode.rerank.model=someone/a-reranker", "query.skip=[]"],
    }[setting]
    overrides = [part for override in settings for part in ("--set", override)]
    index = ["--folder", notes, "--index", tmp_path / "index"]
    indexed = run(CLI, "index", "--complete", *index, *overrides)
    result = (
        run(CLI, "query", *index, *overrides, "where do apples stay fresh?")
        if setting == "rerank"
        else indexed
    )
    output = " ".join((result.stdout + result.stderr).split())
    assert "Traceback" not in output
    assert REMEDY in output


@pytest.mark.slow
def test_server_without_the_models_extra_searches_keywords(notes, weights_only, home, tmp_path):
    run(CLI, "index", "--folder", notes, "--index", tmp_path / "index")
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
        answer = server.call("query", query="brakes repaired")
        deadline = time.monotonic() + 20
        while (
            REMEDY
            not in (
                status := json.dumps(
                    server.request("tools/call", {"name": "status", "arguments": {}})
                )
            )
            and time.monotonic() < deadline
        ):
            time.sleep(0.2)  # the server loads the model in the background
    assert path_of(answer["results"][0]) == "car.md"
    assert REMEDY in status


def test_package_and_handshake_import_no_extra(notes, home):
    result = run(
        "import thumbindex, thumbindex.mcp.server; from sitecustomize import TRIED; "
        # the HTTP client tries `backports` for zstd
        "print(sorted(TRIED - {'backports'}))"
    )
    assert (result.stdout.strip(), result.stderr) == ("[]", "")
