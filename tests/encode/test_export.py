import subprocess
import sys
from dataclasses import replace

import pytest

from thumbindex.encode.export import graph_path, open_graph, weights_path
from thumbindex.errors import ModelError

pytestmark = pytest.mark.model

OPEN = """
import sys
from pathlib import Path
from thumbindex.encode.models import read_card
from thumbindex.encode.export import open_graph
open_graph(read_card(Path(sys.argv[1]), "tiny-bert", Path(sys.argv[2])), Path(sys.argv[2]))
"""


def inputs(session):
    return sorted(entry.name for entry in session.get_inputs())


def test_two_processes_at_once_make_one_good_graph(tiny_bert, tiny_card, tmp_path):
    command = [sys.executable, "-c", OPEN, str(tiny_bert), str(tmp_path)]
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for _ in range(2)
    ]
    assert [process.communicate()[0] for process in both] == [b"", b""]
    assert [process.returncode for process in both] == [0, 0]
    graph = graph_path(tiny_card, tmp_path)
    assert {path for path in (tmp_path / "onnx").iterdir() if path.suffix != ".lock"} == {
        graph,
        weights_path(graph),
    }
    before = graph_path(tiny_card, tmp_path).stat().st_mtime_ns
    assert inputs(open_graph(tiny_card, tmp_path)) == [
        "attention_mask",
        "input_ids",
        "token_type_ids",
    ]
    assert graph_path(tiny_card, tmp_path).stat().st_mtime_ns == before


def test_a_damaged_graph_and_what_a_crash_left_are_replaced(tiny_card, tmp_path, caplog):
    path = graph_path(tiny_card, tmp_path)
    left = path.parent / f"{path.stem}.partial-crashed"
    left.mkdir(parents=True)
    path.write_bytes(b"half a graph")
    assert inputs(open_graph(tiny_card, tmp_path))
    assert not left.exists()
    assert "damaged" in caplog.text


@pytest.mark.parametrize("how", ["gone", "cut off"])
def test_a_graph_without_all_of_its_weights_is_made_again(tiny_card, tmp_path, caplog, how):
    open_graph(tiny_card, tmp_path)
    weights = weights_path(graph_path(tiny_card, tmp_path))
    whole = weights.read_bytes()
    weights.unlink() if how == "gone" else weights.write_bytes(whole[: len(whole) // 2])
    assert inputs(open_graph(tiny_card, tmp_path))
    assert (weights.read_bytes() == whole, "damaged" in caplog.text) == (True, True)


def test_what_cannot_be_exported_is_refused_with_another_way(tiny_card, tmp_path):
    nowhere = replace(tiny_card, folder=tmp_path / "gone", weights="0" * 64)
    with pytest.raises(
        ModelError, match=r"could not be exported to onnx .*gone.*--set encode.embed.runtime=torch"
    ):
        open_graph(nowhere, tmp_path)
    assert list((tmp_path / "onnx").glob("*.onnx")) == []


def test_a_cache_that_cannot_be_written_is_refused_with_another_place(tiny_card, tmp_path):
    (tmp_path / "onnx").write_text("a file where the folder should be")
    with pytest.raises(ModelError, match=r"cannot be written .*--set encode.embed.cache=FOLDER"):
        open_graph(tiny_card, tmp_path)
