import pytest

from thumbindex.encode.export import graph_path, open_graph

pytestmark = pytest.mark.long


def inputs(session):
    return sorted(entry.name for entry in session.get_inputs())


def test_a_damaged_graph_and_what_a_crash_left_are_replaced(tiny_card, tmp_path, caplog):
    path = graph_path(tiny_card, tmp_path)
    left = path.parent / f"{path.stem}.partial-crashed"
    left.mkdir(parents=True)
    path.write_bytes(b"half a graph")
    assert inputs(open_graph(tiny_card, tmp_path))
    assert not left.exists()
    assert "damaged" in caplog.text
