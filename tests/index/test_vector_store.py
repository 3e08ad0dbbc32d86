"""Stored vectors: packing, sharing between folders, deletion and damage."""

import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest

from thumbindex.errors import IndexDamagedError, ModelError, StorageError
from thumbindex.index.builds import delete_index, finish_deleting_vectors, repair_index
from thumbindex.index.chunk_vectors import (
    chunk_matrix,
    chunk_vectors,
    chunks_without_vector,
    unique_keys,
)
from thumbindex.index.files import IndexPaths
from thumbindex.index.snapshot import load_vectors
from thumbindex.index.store import Store
from thumbindex.index.vector_store import VectorStore, packed, vector_file
from thumbindex.index.writer import MIN_VECTORS, Batch, Writer


@pytest.mark.parametrize("length", [1e-44, 1e38])
def test_vector_of_any_length_keeps_its_direction(length):
    stored = packed(np.array([[0, -length, length]], dtype=np.float32))
    assert stored.tolist() == [[0, -127, 127]]


# ------------------------------------------------------------------ one folder


def embed(folder, fingerprint="m", seed=1):
    """Store a random vector for each pending text; return their number."""
    with Writer.open(folder) as writer:
        writer.set_meta("fingerprint", fingerprint, dimensions="3", model=fingerprint)
        generator = np.random.default_rng(seed)
        pending = [key for key, _ in unique_keys(chunks_without_vector(writer.store))]
        writer.store_vectors({key: generator.normal(size=3) for key in pending})
    return len(pending)


def files_with(data, folder):
    return [path.name for path in folder.rglob("*") if path.is_file() and data in path.read_bytes()]


def vectors_in(tmp_path, fingerprint="m"):
    with closing(
        VectorStore(vector_file(tmp_path / "vectors", fingerprint), read_only=True)
    ) as vectors:
        return vectors.count()


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_vector_that_is_not_finite_is_refused_and_stays_pending(number, build, note, tmp_path):
    build(note("a.md", "apples"))
    with Writer.open(tmp_path / "index") as writer:
        writer.set_meta("fingerprint", "m")
        keys = [key for key, _ in unique_keys(chunks_without_vector(writer.store))]
        with pytest.raises(ModelError, match="Choose another model"):
            writer.store_vectors({keys[0]: np.array([number, 1], dtype=np.float32)})
        assert [key for key, _ in unique_keys(chunks_without_vector(writer.store))] == keys


def test_loading_all_vectors_equals_loading_each(build, note, tmp_path):
    _, paths = build(
        note("a.md", *(f"apples {n}" for n in range(1001))),
        note("b.md", "pears"),
        note("c.md", "pears", title="b"),
    )
    embed(paths.folder)
    with closing(Store(paths.store, read_only=True)) as store:
        rows, matrix = chunk_matrix(store, sorted(row for row in store.signed_row_ids() if row > 0))
        view = load_vectors(store)
    order = np.argsort(view.rows())
    assert (len(rows), view.rows()[order].tolist()) == (1003, rows)
    assert view.matrix_at(np.arange(len(view.rows())))[order] == pytest.approx(matrix, abs=1e-3)


def test_vectors_of_two_models_of_one_dimension_never_mix(build, note, tmp_path):
    _, paths = build(note("a.md", "text"))
    embed(paths.folder, "one")
    assert (
        embed(paths.folder, "two"),
        vectors_in(tmp_path, "one"),
        vectors_in(tmp_path, "two"),
    ) == (1, 1, 1)


# ------------------------------------------------------------------ shared


def test_text_of_another_folder_is_not_embedded_again(build, note, tmp_path):
    build(note("a.md", "apples", "pears"))
    build(note("a.md", "apples", "plums"), folder="other")
    assert (embed(tmp_path / "index"), embed(tmp_path / "other"), vectors_in(tmp_path)) == (2, 1, 3)


def test_deleting_an_index_deletes_vectors_unused_elsewhere(build, note, tmp_path):
    for name, text in (("index", "pears"), ("other", "plums")):
        build(note("a.md", "apples", text), folder=name)
        embed(tmp_path / name)
    delete_index(IndexPaths(tmp_path / "index"))
    assert (vectors_in(tmp_path), embed(tmp_path / "other")) == (2, 0)
    delete_index(IndexPaths(tmp_path / "other"))
    assert list((tmp_path / "vectors").glob("*.sqlite3*")) == []


def test_erasure_deletes_vectors_except_those_used_by_another_folder(build, note, tmp_path):
    secret, shared = note("secret.md", "the word is mellon"), note("shared.md", "a text of both")
    build(secret, shared)
    build(shared, folder="other")
    embed(tmp_path / "index")
    embed(tmp_path / "other")
    with Writer.open(tmp_path / "index") as writer:
        secret_rows = [
            row
            for row, chunk in writer.store.chunks(
                [r for r in writer.store.signed_row_ids() if r > 0]
            ).items()
            if "mellon" in chunk.text
        ]
        (vector,) = chunk_vectors(writer.store, secret_rows).values()
        erased = packed(vector[None]).tobytes()
        assert files_with(erased, tmp_path) != []
        paths = ("secret.md", "shared.md")
        private = [secret[0], shared[0]]
        writer.apply(
            Batch(removed=paths, erase=frozenset(paths), private=private),
            lambda documents: lambda link, path: None,
        )
        assert writer.erase_private()
    assert (files_with(erased, tmp_path), vectors_in(tmp_path), embed(tmp_path / "other")) == (
        [],
        1,
        0,
    )


def test_unreadable_index_blocks_the_deletion_of_vectors(build, note, tmp_path):
    _, paths = build(note("a.md", "apples"))
    embed(paths.folder)
    build(note("b.md", "pears"), folder="other")
    embed(tmp_path / "other")
    intact = paths.store.read_bytes()
    paths.store.write_bytes(b"damaged" * 1000)
    delete_index(IndexPaths(tmp_path / "other"))
    assert vectors_in(tmp_path) == 2
    paths.store.write_bytes(intact)
    with Writer.open(paths.folder) as writer:
        finish_deleting_vectors(writer.paths.folder.parent)
    assert (vectors_in(tmp_path), embed(paths.folder)) == (1, 0)


def test_unused_vectors_are_deleted_if_they_outnumber_used_ones(build, note, tmp_path):
    build(note("a.md", *(f"apples {n}" for n in range(2 * MIN_VECTORS))))
    embed(tmp_path / "index")
    build(note("a.md", "pears"))
    with Writer.open(tmp_path / "index") as writer:
        writer.limit_unused_vectors()
        assert vectors_in(tmp_path) == 2 * MIN_VECTORS
    embed(tmp_path / "index")
    with Writer.open(tmp_path / "index") as writer:
        writer.limit_unused_vectors()
    assert vectors_in(tmp_path) == 1


def test_concurrent_processes_lose_no_vectors(tmp_path):
    path = vector_file(tmp_path, "m")
    program = (
        "import sys, numpy as np; from pathlib import Path; from thumbindex.index.vector_store "
        "import VectorStore\n"
        "process = int(sys.argv[2])\n"
        "for n in range(15):\n"
        "    store = VectorStore.open(Path(sys.argv[1]), 'm')\n"
        "    keys = [bytes([process, n]), bytes([9, n])]\n"
        "    store.add(keys, np.array([[process, n + 1], [1, n]]))\n"
        "    store.close()"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program, str(path), str(n)]) for n in range(3)
    ]
    assert [process.wait() for process in processes] == [0, 0, 0]
    with closing(VectorStore(path, read_only=True)) as store:
        store.verify()
        assert store.count() == 3 * 15 + 15


def test_index_is_readable_without_its_vectors(build, note, tmp_path):
    _, paths = build(note("a.md", "apples"))
    embed(paths.folder)
    shutil.rmtree(tmp_path / "vectors")
    with closing(Store(paths.store, read_only=True)) as store:
        assert (store.counts(), len(load_vectors(store).rows()), store.vectors) == (
            (1, 1, 0, 0),
            0,
            None,
        )


def test_file_under_creation_is_not_damaged(tmp_path):
    def opened(path):
        while True:
            try:
                VectorStore(path, read_only=True).close()
                return ""
            except IndexDamagedError as error:
                return str(error)
            except StorageError:  # missing, or being created
                pass

    with ThreadPoolExecutor() as pool:
        for number in range(15):
            path = tmp_path / f"{number}.sqlite3"
            readers = [pool.submit(opened, path) for _ in range(2)]
            VectorStore.open(path, "m").close()
            assert [reader.result() for reader in readers] == ["", ""]


# ------------------------------------------------------------------ damaged


@pytest.mark.parametrize(
    "change", ["vector = x'7f0101'", "vector = x'7f'", "checksum = checksum + 1"]
)
def test_corrupted_vector_is_ignored_and_repair_embeds_all_again(change, build, note, tmp_path):
    _, paths = build(note("a.md", *(f"apples {n}" for n in range(900))))
    embed(paths.folder)
    with closing(sqlite3.connect(vector_file(tmp_path / "vectors", "m"))) as db:
        db.execute(f"UPDATE vectors SET {change} WHERE rowid = 700")
        db.commit()
    with closing(Store(paths.store, read_only=True)) as store:
        assert len(load_vectors(store).rows()) == 899
    assert (
        "a vector is corrupted). The file was deleted, and its chunks will be embedded again."
    ) in repair_index(paths)
    assert (
        embed(paths.folder),
        len(load_vectors(Store(paths.store, read_only=True)).rows()),
    ) == (900, 900)


def test_damaged_vector_file_is_replaced(build, note, tmp_path):
    _, paths = build(note("a.md", "apples"))
    embed(paths.folder)
    for path in (tmp_path / "vectors").iterdir():
        path.write_bytes(b"damaged" * 1000)
    assert (embed(paths.folder), vectors_in(tmp_path)) == (1, 1)
