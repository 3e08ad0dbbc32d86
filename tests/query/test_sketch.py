import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thumbindex.compare.likeness import likeness, worth_reading


def test_texts_are_as_alike_as_their_letters_are() -> None:
    linked = (
        "- *Copy* [all files](https://example.org/a/long/way) to the\n"
        "  [[disk|backup disk]] tonight"
    )
    found = likeness(["Copy all files to the backup disk tonight.", linked, "Trees grow."])
    assert (found[0, 1] > 0.8, found[0, 2] < 0.1) == (True, True)


def test_an_empty_text_is_like_no_other() -> None:
    assert worth_reading(["", "", "word"], 0.1).tolist() == [
        [False, False, False],
        [False, False, False],
        [False, False, True],
    ]
    assert worth_reading([], 0.1).shape == (0, 0)


@given(st.lists(st.text(max_size=30), max_size=6))
def test_a_sketch_depends_on_its_own_text_alone(texts: list[str]) -> None:
    together = likeness(texts)
    alone = [[likeness([a, b])[0, 1] for b in texts] for a in texts]
    assert np.allclose(together, np.array(alone).reshape(together.shape))
