"""Growth: synthetic vectors behave as vectors do, and an index of them is asked in a process of its own."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from thumbindex.errors import ThumbindexError
from thumbindex.library import Library
from thumbindex.ports import Embedder
from thumbindex.study.bench.asked import WARM, ask_apart
from thumbindex.study.bench.growth import A_CHUNK, STEP, Grown, rows_of, steps_of
from thumbindex.study.bench.subject import Subject, Where
from thumbindex.study.bench.synthetic import SyntheticEmbedder


def grown(chunks: int, milliseconds: float, resident: int) -> Grown:
    return Grown(chunks, ({"words": [milliseconds] * 3, "hybrid": [2 * milliseconds] * 3, "resident": resident},))


def test_a_passage_has_one_random_unit_vector_and_a_question_the_real_one(real_embedder: Embedder) -> None:
    synthetic = SyntheticEmbedder(real_embedder)
    one, other, again = synthetic.embed_passages(["a", "b", "a"])
    assert (one @ again, abs(one @ other) < 0.3) == (pytest.approx(1.0), True)
    assert np.array_equal(synthetic.embed_query("a"), real_embedder.embed_query("a"))


def test_an_index_is_asked_in_a_process_of_its_own(
    subject: Subject, open_fake: Callable[..., Library], real_embedder: Embedder, model_cache: Path, tmp_path: Path
) -> None:
    where = Where(subject.where.folder, tmp_path / "synthetic")
    with open_fake(where, SyntheticEmbedder(real_embedder)) as library:
        library.index()
    options = [f"--folder={where.folder}", f"--index={where.index}"]
    options += ["--set=encode.embed.model=all-MiniLM-L6-v2", f"--set=encode.embed.cache={model_cache}"]
    found = ask_apart(options, ["green button"] * (WARM + 2))
    assert (len(found["words"]), len(found["hybrid"]), found["chunks"]) == (2, 2, 4)


def test_a_process_that_fails_is_told_in_its_own_words() -> None:
    with pytest.raises(ThumbindexError, match="could not be asked"):
        ask_apart(["--folder=/nowhere", "--set=nonsense=1"], ["x"])


def test_a_step_is_told_in_times_and_in_kilobytes_a_chunk() -> None:
    words, hybrid, memory = steps_of(grown(1_000, 2.0, 10_000_000), grown(11_000, 6.0, 50_000_000))
    assert [(row.median, row.target) for row in (words, hybrid, memory)] == [(3.0, STEP), (3.0, STEP), (4.0, A_CHUNK)]


def test_a_size_is_told_with_every_figure_that_can_be_drawn() -> None:
    assert {(row.unit, row.size) for row in rows_of(grown(1_000, 2.0, 10_000_000))} == {("ms", 1_000), ("MB", 1_000)}
