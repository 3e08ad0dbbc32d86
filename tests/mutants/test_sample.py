"""Which faults are tried is said by the seed alone, and each part has its share."""

from collections import Counter

from mutants.run import BATCH, PARTS, part_of, sample

NAMES = dict.fromkeys(f"thumbindex.{part.replace('/', '.')}.x_{number}" for part in PARTS for number in range(BATCH * 2))


def test_one_seed_tries_the_same_faults_and_another_seed_others():
    first, again, other = (list(sample(NAMES, seed, ["query", "index"])) for seed in (1, 1, 2))
    assert first == again
    assert first[0] != other[0]


def test_each_round_tries_equally_many_of_each_part_and_none_twice():
    rounds = list(sample(NAMES, 1, list(PARTS)))
    assert [Counter(map(part_of, names)) for names in rounds] == [dict.fromkeys(PARTS, BATCH)] * 2
    assert sorted(name for names in rounds for name in names) == sorted(NAMES)


def test_a_part_that_was_not_asked_for_is_left_alone():
    assert {part_of(name) for names in sample(NAMES, 1, ["index"]) for name in names} == {"index"}
