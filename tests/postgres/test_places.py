"""Where documents stand in a published folder: places that ascend by path, and stay when others
come between.
"""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from thumbindex.index.postgres.publish import spread

END = 1 << 34


@given(st.lists(st.integers(0, 6), max_size=30))
def test_places_ascend_and_those_that_are_there_stay(runs: list[int]) -> None:
    """Between two documents with places some come that have none."""
    held = [(n + 1) * (END // (len(runs) + 2)) for n in range(len(runs))]
    given_ones = [
        place for count, own in zip(runs, held, strict=True) for place in (*[-1] * count, own)
    ]
    found = spread(given_ones, END)
    assert all(
        0 <= first < second < END
        for first, second in pairwise([*found, END - 1] if found[-1:] != [END - 1] else found)
    )
    assert [after for before, after in zip(given_ones, found, strict=True) if before >= 0] == held


def test_where_no_room_is_left_all_get_new_places() -> None:
    found = spread([5, -1, 6, -1, 7], END)
    assert (found == sorted(set(found)), len(found), found[-1] < END) == (True, 5, True)


def test_dozens_of_notes_come_one_behind_the_other_before_room_runs_out() -> None:
    places = spread([-1] * 100_000, END)[:2]
    for n in range(60):
        places = spread([*places[:-1], -1, places[-1]], END)
        assert places[0] < places[-2] < places[-1], n
