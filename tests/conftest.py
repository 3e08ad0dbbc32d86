"""Fixtures for all tests: the bundled model, its published weights, and tiny models."""

import json
import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import hypothesis
import pytest

CACHE = Path(__file__).parents[1] / ".cache"

# examples must not fail on a busy machine
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

# tests import shared modules from this directory by name
sys.path.insert(0, str(Path(__file__).parent))

# If pytest runs in the background, it ignores Ctrl-C, and so would the processes that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Compile each module once, also in a container that turns this off: xdist and the command line
# start many processes.
os.environ["PYTHONDONTWRITEBYTECODE"] = ""
sys.dont_write_bytecode = False

# Write indexes to memory if it has room: a test commits dozens of times, and a disk takes
# milliseconds for each.
_MEMORY, _ROOM = Path("/dev/shm"), 4_000_000_000
if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# Isolate tests from the network, and from the developer's models, servers, settings and state.
# This must come before any import of huggingface_hub. Socket addresses need a short path.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HOME"] = str(CACHE / "no-models")
_RUNTIME = tempfile.TemporaryDirectory(prefix="ti")
os.environ["XDG_RUNTIME_DIR"] = _RUNTIME.name
os.environ["XDG_CONFIG_HOME"] = f"{_RUNTIME.name}/config"
os.environ["XDG_STATE_HOME"] = str(CACHE / "state")

from postgres.cluster import cluster  # noqa: E402, F401
from postgres.server import database, engine, postgres, reader_url, reading_engine  # noqa: E402, F401
from thumbindex.encode.embed import TorchEmbedder, open_embedder  # noqa: E402
from thumbindex.encode.models import BUNDLED, read_card  # noqa: E402
from thumbindex.settings import EmbedSettings  # noqa: E402
from weights import published_weights  # noqa: E402

_FORMS = {"private_form": "private", "open_form": "not private"}
_ROW = re.compile(r"^\| (.+?) \| (`+)( ?)(.+)\3\2 \|$", re.M)


def pytest_generate_tests(metafunc):
    """Parametrize `private_form` and `open_form` by the rows of `tests/corpus/private-forms.md`."""
    for name in _FORMS.keys() & set(metafunc.fixturenames):
        table = read_forms(_FORMS[name])
        metafunc.parametrize(name, table.values(), ids=table)


@pytest.fixture(scope="session")
def private_forms():
    """Return the beginning of a private note for each form of marking, by the form's name."""
    return read_forms("private")


def read_forms(kind):
    page = (Path(__file__).parent / "corpus" / "private-forms.md").read_text(encoding="utf-8")
    table = page.partition(f"\n| {kind} | the note's beginning |\n")[2].partition("\n\n")[0]
    rows = [row for row in table.splitlines()[1:] if not row.startswith("| **")]
    forms = {match[1]: _unescape(match[4]) for match in map(_ROW.match, rows) if match}
    assert len(forms) == len(rows) > 30, "a row cannot be parsed, or two rows have the same name"
    return forms


def _unescape(text):
    text = text.replace("\\|", "|").replace("⏎", "\n")
    text = re.sub(r"⟨U\+([0-9A-F]{4})⟩", lambda match: chr(int(match[1], 16)), text)
    return re.sub(r"⟨(\d+) × ([^⟨⟩]+)⟩", lambda match: int(match[1]) * match[2], text)


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="session")
def real_embedder():
    settings = EmbedSettings(model=BUNDLED, runtime="onnx", workers=2)
    return open_embedder(settings, offline=True)


@pytest.fixture(scope="session")
def published():
    """Return the folder of the bundled model's published weights (extra `weights`)."""
    folder = published_weights()
    if folder is None:
        pytest.skip("the published weights are not installed (extra `weights`)")
    return folder


@pytest.fixture(scope="session")
def torch_embedder(published):
    return TorchEmbedder(read_card(published, BUNDLED, torch=True))


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory):
    """Make a folder with an untrained BERT model of two layers."""
    return _save_bert(
        pytest.importorskip("transformers", reason="the extra `models` is not installed").BertModel,
        tmp_path_factory.mktemp("tiny-bert"),
    )


@pytest.fixture(scope="session")
def tiny_cross_encoder(tmp_path_factory):
    """Make a folder with an untrained cross-encoder that has one output."""
    return _save_bert(
        pytest.importorskip(
            "transformers", reason="the extra `models` is not installed"
        ).BertForSequenceClassification,
        tmp_path_factory.mktemp("tiny-cross-encoder"),
        num_labels=1,
    )


def _save_bert(kind, folder, **options):
    import torch
    from transformers import BertConfig

    torch.manual_seed(7)
    vocabulary = _save_tokenizer(folder)
    shape = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
    }
    kind(BertConfig(vocab_size=vocabulary, **shape, **options)).save_pretrained(folder)
    return folder


def _save_tokenizer(folder):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    tokens = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *letters,
        *(f"##{letter}" for letter in letters),
        ":",
        ".",
    ]
    tokenizer = Tokenizer(
        models.WordPiece({token: number for number, token in enumerate(tokens)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.add_special_tokens(tokens[:5])
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 64, **names})
    )
    return len(tokens)
