"""A snapshot shows one generation, and reuses what has not changed."""

import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from thumbindex.index.chunk_vectors import chunks_without_vector, unique_keys
from thumbindex.index.snapshot import load_vectors, open_snapshot
from thumbindex.index.store import Store
from thumbindex.index.writer import Batch, Writer
from thumbindex.model import Term
from thumbindex.ports import KeywordWeights

BODY = KeywordWeights({"body": 1.0})


def add_vectors(folder):
    """Store a vector for each chunk of an index."""
    with Writer.open(folder) as writer:
        writer.set_meta("fingerprint", "m", dimensions="2", model="m")
        writer.store_vectors(
            {
                key: np.array([1, 0], dtype=np.float32)
                for key, _ in unique_keys(chunks_without_vector(writer.store))
            }
        )


def test_new_vectors_keep_the_keyword_index_and_running_searches(build, note, tmp_path):
    store, _ = build(note("a.md", "apples"))
    before = open_snapshot(store, "")
    add_vectors(tmp_path / "index")
    after = open_snapshot(store, "", previous=before)
    assert after.snapshot.keyword is before.snapshot.keyword
    assert (len(before.snapshot.vector), len(after.snapshot.vector)) == (0, 1)


# ------------------------------------------------------------------ updated snapshots

WORDS = ("apples", "pears", "plums", "grow", "ripen")
FIELDS = ("body", "headings", "title", "path")


def embed(folder, share):
    """Store vectors for a share of the pending chunks."""
    with Writer.open(folder) as writer:
        writer.set_meta("fingerprint", "m", dimensions="2", model="m")
        pending = [key for key, _ in unique_keys(chunks_without_vector(writer.store))]
        selected = pending[: int(len(pending) * share)]
        writer.store_vectors(
            {
                key: np.array([key[0], key[1] + 1], dtype=np.float32) / np.hypot(key[0], key[1] + 1)
                for key in selected
            }
        )


def answers(opened):
    """Return the results of all kinds of reads from a snapshot."""
    snapshot = opened.snapshot
    weights = [KeywordWeights(dict.fromkeys(FIELDS, 1.0)), KeywordWeights({"code": 1.0})]
    terms = [[Term(word)] for word in WORDS] + [
        [Term("apples"), Term("grow")],
        [Term("apples grow", phrase=True)],
    ]
    vector, size = snapshot.vector, len(snapshot.catalog)
    masks = [None, snapshot.catalog.only(range(0, size, 2))]
    return (
        list(snapshot.catalog.documents),
        [snapshot.catalog.chunk_ids(n) for n in range(len(snapshot.catalog.documents))],
        snapshot.catalog.chunks(range(size)),
        [
            snapshot.keyword.search(term, weight, 5, mask)
            for term in terms
            for weight in weights
            for mask in masks
        ],
        sorted(snapshot.keyword.lexicon(range(30))),
        [snapshot.keyword.chunk_frequency(word) for word in WORDS],
        [
            vector.search(np.array([1, 0], dtype=np.float32), limit, mask)
            for limit in (1, 3, 20)
            for mask in masks
        ],
        np.nan_to_num(vector.vectors(range(size)), nan=9).tolist(),
        [
            (snapshot.graph.outgoing(n), snapshot.graph.incoming(n))
            for n in range(len(snapshot.catalog.documents))
        ],
    )


def test_updated_snapshot_equals_a_fresh_one(build, note, tmp_path):
    chance = random.Random(1)
    store, _ = build(*(note(f"n{n}.md", "apples grow", "pears") for n in range(30)))
    updated = open_snapshot(store, "x")
    for step in range(10):
        paths = chance.sample([f"n{n}.md" for n in range(35)], 4)
        notes = [edited(note, path, chance) for path in paths[:2]]
        build(*notes, removed=tuple(paths[2:]) if chance.random() < 0.5 else ())
        if chance.random() < 0.5:
            embed(tmp_path / "index", chance.random())
        if step % 5 == 4:
            with Writer.open(tmp_path / "index") as writer:
                writer.merge_keyword()
        updated = open_snapshot(store, "x", previous=updated)
        assert answers(updated) == answers(open_snapshot(store, "x"))


def edited(note, path, chance):
    """Return a note with random words, headings and links."""
    paragraphs = [
        f"{chance.choice(('', 'Plums: '))}{' '.join(chance.choices(WORDS, k=3))}"
        for _ in range(chance.randrange(1, 4))
    ]
    return note(
        path,
        *paragraphs,
        title=chance.choice(WORDS),
        links=tuple(f"n{chance.randrange(35)}" for _ in range(2)),
        modified=chance.random(),
    )


def test_frequent_word_is_found_in_remaining_documents(build, note):
    store, _ = build(*(note(f"{n}.md", " ".join(["apples"] * (1 + n % 3))) for n in range(300)))
    before = open_snapshot(store, "")
    build(removed=tuple(f"{n}.md" for n in range(100)))
    for opened in (open_snapshot(store, ""), open_snapshot(store, "", previous=before)):
        hits = opened.snapshot.keyword.search([Term("apples")], BODY, 500).hits
        assert len(hits) == opened.snapshot.keyword.chunk_frequency("apples") == 200
        assert len({hit.score for hit in hits}) == 3


def test_touched_document_has_its_new_time(build, note, tmp_path):
    state, parsed = note("a.md", "apples")
    store, _ = build((state, parsed))
    before = open_snapshot(store, "")
    assert before.catalog.documents[0].modified == 0.0
    with Writer.open(tmp_path / "index") as writer:
        writer.apply(Batch(metadata_only=[(state, 5.0)]), lambda _: lambda *_: None)
    assert open_snapshot(store, "", previous=before).catalog.documents[0].modified == 5.0


def test_document_has_the_days_of_its_commits(build, note, tmp_path):
    store, _ = build(note("a.md", "apples"))
    before = open_snapshot(store, "")
    with Writer.open(tmp_path / "index") as writer:
        writer.store_commit_dates({"a.md": ("2020-01-01", "2021-02-03")}, "c0ffee")
    after = open_snapshot(store, "", previous=before).catalog.documents[0]
    assert (after.first_commit, after.last_commit) == ("2020-01-01", "2021-02-03")


@pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="open files are counted through /proc"
)
def test_unused_segment_files_are_closed(build, note, tmp_path):
    store, paths = build(note("a.md", "apples"))
    opened, wrong = open_snapshot(store, ""), []
    for number in range(18):
        build(note(f"{number % 7}.md", f"apples {number}"))
        if number % 6 == 5:
            with Writer.open(tmp_path / "index") as writer:
                writer.merge_keyword()
        opened = open_snapshot(store, "", previous=opened)
        opened.snapshot.keyword.search([Term("apples", phrase=True)], BODY, 5)
        segments = len(opened.keyword.segments)
        wrong += [counts for counts in (open_files(paths),) if counts != (segments, segments)]
    assert wrong == []


def open_files(paths):
    """Count the open files and memory maps of a keyword index."""
    files = []
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since the listing
            files.append(str(path.readlink()))
    maps = Path("/proc/self/maps").read_text().splitlines()
    return sum(str(paths.segments_folder) in name for name in files), sum(
        str(paths.segments_folder) in line for line in maps
    )


# ------------------------------------------------------------------ concurrent commits


def test_texts_in_a_transaction_ignore_later_commits(build, note):
    store, _ = build(note("a.md", "apples", "pears"))
    with store.read_transaction():
        catalog = open_snapshot(store, "").catalog
        build(note("a.md", "plums"))
        assert [chunk.text for chunk in catalog.chunks([0, 1]).values()] == ["apples", "pears"]
    assert open_snapshot(store, "").catalog.chunks([0])[0].text == "plums"


class EditedWhileLoading(Store):
    """A store that loses a document after the keys of all chunks are read."""

    def fetch(self, sql, parameters=()):
        rows = super().fetch(sql, parameters)
        if sql == "SELECT key, id FROM chunks NOT INDEXED":
            with Writer.open(self.path.parent.parent) as writer:
                writer.apply(Batch((), ("a.md",)), lambda _: lambda *_: None)
        return rows


def test_loaded_vectors_are_of_one_generation(build, note, tmp_path):
    _, paths = build(note("a.md", "apples"), note("b.md", "pears"))
    add_vectors(tmp_path / "index")
    store = EditedWhileLoading(paths.store, read_only=True)
    before = [row for row, _, _ in store.chunk_rows()]
    assert load_vectors(store).rows().tolist() == before
    assert len(store.chunk_rows()) < len(before)


class EditedWhileOpening(Store):
    """A store that gets another commit whenever its links are read."""

    def linked_paths(self):
        links = super().linked_paths()
        self.commit()
        return links


def test_snapshot_ignores_commits_while_it_opens(build, note, tmp_path):
    _, paths = build(note("a.md", "apples"))
    store = EditedWhileOpening(paths.store, read_only=True)
    store.commit = lambda: None
    opened = open_snapshot(store, "")
    for number in range(3):
        build(note(f"{number}.md", f"pears {number}"))
        store.commit = lambda number=number: build(note(f"late{number}.md", "apples"))
        opened = open_snapshot(store, "", previous=opened)
        assert opened.documents == 2 + 2 * number
        assert not opened.is_current(store)
        assert len(opened.snapshot.keyword) == len(opened.snapshot.catalog)
        (hit,) = opened.snapshot.keyword.search([Term(str(number))], BODY, 5).hits
        assert opened.catalog.paths[hit.document] == f"{number}.md"
