"""Tune settings on a vault's own queries: a grid, cross-validation, and caches for the models."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from thumbindex.config import with_tuned
from thumbindex.model import Progress
from thumbindex.settings import Config, QuerySettings
from thumbindex.study.compare import Interval
from thumbindex.study.from_links import LINK_KINDS, TELLING, ask_unseen, queries_from_links
from thumbindex.study.measures import score_query
from thumbindex.study.queries import LabeledQuery

if TYPE_CHECKING:
    from thumbindex.library import Library


Values = Mapping[str, Any]
"""Settings by key, as in `query.fuse.k`."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An alternative to the defaults."""

    name: str
    values: Values


def _balance(vector: float) -> Choice:
    values = {
        "query.search_vector.weight": vector,
        "query.search_keyword.weight": round(1 - vector, 2),
    }
    return Choice(f"meaning {vector}, words {round(1 - vector, 2)}", values)


def _ranks(k: int) -> Choice:
    return Choice(f"reciprocal ranks, k {k}", {"query.fuse.method": "rrf", "query.fuse.k": k})


def _weight(name: str, stage: str, weight: float) -> Choice:
    return Choice(f"{name} {weight}", {f"query.{stage}.weight": weight})


_SKIP = "query.skip"


def _reranked(weight: float) -> Choice:
    return Choice(
        f"reranked, {weight}",
        {_SKIP: QuerySettings().with_stages("rerank").skip, "query.rerank.weight": weight},
    )


GRID: tuple[tuple[Choice, ...], ...] = (
    (_balance(0.5), _balance(0.8)),
    (_ranks(10), _ranks(30), _ranks(60)),
    (_weight("links", "search_graph", 0.0), _weight("links", "search_graph", 0.1)),
    (_weight("identifiers", "search_code", 0.0), _weight("identifiers", "search_code", 0.2)),
    (Choice("expanded", {_SKIP: QuerySettings().with_stages("expand").skip}),),
    (_reranked(0.1), _reranked(0.2)),
)
"""The axes in the order in which they are decided, the default of each left out: what is decided
first is the ground for what comes after.
"""

_BESIDE_RANKING = (
    "confidence",
    "variants",
    "dedup_known",
    "dedup_hash",
    "deduplicate",
    "dedup_ngram",
    "dedup_semantic",
    "contradict",
    "parents",
)
"""Stages that take out what says the same and dress up what is left: two thirds of a query's time,
and they never change the order of what stays.
"""


def open_axes(config: Config) -> tuple[tuple[Choice, ...], ...]:
    """Return the grid without what the configuration says itself: a key that anybody has written is
    not tuned.
    """
    axes = (
        tuple(choice for choice in axis if with_tuned(config, choice.values, "the grid") != config)
        for axis in GRID
    )
    return tuple(
        tuple(choice for choice in axis if not config.written & choice.values.keys())
        for axis in axes
    )


def settings_of(config: Config, values: Values) -> QuerySettings:
    """Return the query settings with some values of the grid, ranking alone: as what is found is
    shown makes no difference to what is first.
    """
    return with_tuned(config, values, "the grid").query.without_stages(*_BESIDE_RANKING)


Scores = npt.NDArray[np.float64]
"""Shape (queries,): nDCG@10 of each."""

Groups = npt.NDArray[np.int64]
"""Shape (queries,): which group of documents each query is about, from 0."""

Measure = Callable[[Values], Scores]
"""Asks all queries with some values of the grid."""

FOLDS = 5

DRAWS = 5000
"""Of the bootstrap: the ends of an interval move by less than a twentieth of its width from one
seed to another.
"""


LEAST_GAIN = 0.005
"""Of nDCG@10: what gains less is not worth a setting of its own, however sure it is."""


def group_by_document(queries: Sequence[LabeledQuery]) -> Groups:
    """Number the queries so that two that share a relevant document, directly or through others,
    have one number.
    """
    leader: dict[str, str] = {}

    def find(path: str) -> str:
        while leader.setdefault(path, path) != path:
            path = leader[path]
        return path

    for query in queries:
        for label in query.relevant:
            leader[find(label.path)] = find(query.relevant[0].path)
    found = [find(query.relevant[0].path) for query in queries]
    numbers = {path: n for n, path in enumerate(sorted(set(found), key=_draw))}
    return np.array([numbers[path] for path in found], dtype=np.int64)


def deal(groups: Groups, folds: int = FOLDS) -> Groups:
    """Return the fold of each query, groups whole: large ones first, each into what is smallest so
    far.
    """
    counts = np.bincount(groups)
    fold_of, sizes = np.zeros(len(counts), dtype=np.int64), np.zeros(folds)
    for group in np.argsort(-counts, kind="stable"):
        fold_of[group] = int(np.argmin(sizes))
        sizes[fold_of[group]] += counts[group]
    return fold_of[groups]


Step = Callable[[], object]
"""Told of each axis that was decided: of all of them `FOLDS` times, and once more with all
queries.
"""


def choose(
    axes: Sequence[Sequence[Choice]],
    measure: Measure,
    groups: Groups,
    rows: npt.NDArray[np.bool_],
    step: Step = lambda: None,
) -> tuple[Choice, ...]:
    """Take on each axis in turn the best choice, where its gain over what is taken so far is more
    than one standard error (Breiman et al.

    1984).
    """
    taken: tuple[Choice, ...] = ()
    for axis in axes:
        before = measure(joint_values(taken))
        gains = {
            choice.name: (measure(joint_values((*taken, choice))) - before)[rows] for choice in axis
        }
        best = max(axis, key=lambda choice: float(gains[choice.name].mean()), default=None)
        if best is not None and gains[best.name].mean() > max(
            standard_error(gains[best.name], groups[rows]), LEAST_GAIN
        ):
            taken = (*taken, best)
        step()
    return taken


def cross_validate(
    axes: Sequence[Sequence[Choice]], measure: Measure, groups: Groups, step: Step = lambda: None
) -> Scores:
    """Return each query's gain over the defaults by what was chosen without it and all other
    queries about its documents.
    """
    folds, gains = deal(groups), np.zeros(len(groups))
    for fold in range(FOLDS):
        held_out = folds == fold
        taken = choose(axes, measure, groups, ~held_out, step)
        gains[held_out] = (measure(joint_values(taken)) - measure({}))[held_out]
    return gains


def joint_values(choices: Sequence[Choice]) -> Mapping[str, Any]:
    """Return the values of several choices, of different axes; a stage that one of them runs is not
    left out.
    """
    values = {key: value for choice in choices for key, value in choice.values.items()}
    if _SKIP in values:
        skips = [choice.values[_SKIP] for choice in choices if _SKIP in choice.values]
        values[_SKIP] = tuple(stage for stage in skips[0] if all(stage in each for each in skips))
    return values


def standard_error(differences: Scores, groups: Groups) -> float:
    """Return the standard error of a mean whose terms hang together in groups."""
    mean = differences.mean()
    sums = np.bincount(groups, weights=differences - mean)
    return float(np.sqrt((sums**2).sum()) / len(differences))


def interval(differences: Scores, groups: Groups, seed: int = 1) -> Interval:
    """Return the mean and its 95 % interval by a paired bootstrap over groups, the same each
    time.
    """
    _, own = np.unique(groups, return_inverse=True)
    sums, counts = np.bincount(own, weights=differences), np.bincount(own)
    drawn = np.random.default_rng(seed).integers(0, len(counts), (DRAWS, len(counts)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return Interval(float(differences.mean()), float(low), float(high))


def _draw(path: str) -> str:
    return hashlib.blake2b(path.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


LEAST_QUERIES = 30
"""Fewer tell nothing: their interval is wider than any gain that was ever measured for a
setting.
"""

MOST_TELLING, MOST_NAMES = 200, 80
"""Queries that decide, and names that are only watched: enough for ±0.02, and asked in minutes."""

MOST_LOST = 0.005
"""What a kind of query may lose, in the mean: less than one place of one query in a hundred."""

LEAST_OF_A_KIND = 10
"""A kind with fewer queries has no say of its own."""

GIVEN = "given"
"""The kind of all queries from the user's own file."""

_RANKED = 30
"""Passages that are asked for: ten documents count, and of each there are three at most."""


@dataclass(frozen=True, slots=True)
class Tried:
    """An alternative alone against the defaults, over all queries that decide."""

    choice: Choice
    gain: Interval


@dataclass(frozen=True, slots=True)
class OfKind:
    """What the choice does to one kind of query."""

    queries: int
    before: float
    after: float
    decides: bool


@dataclass(frozen=True, slots=True)
class Tuning:
    """A decision, and what it stands on."""

    settings: Values  # empty where the defaults stay
    reason: str
    queries: int  # that decide
    documents: int  # groups of documents that they are about
    model: str  # that the index was made with
    choices: tuple[str, ...] = ()  # what all queries together would choose
    gain: Interval | None = None  # cross-validated: on queries that had no say
    kinds: Mapping[str, OfKind] = field(default_factory=dict)
    tried: tuple[Tried, ...] = ()
    seconds: float = 0.0


class Asker:
    """Asks queries with some values of the grid, each only once."""

    def __init__(
        self,
        library: Library,
        config: Config,
        queries: Sequence[LabeledQuery],
        tell: Callable[[int], object] = lambda _: None,
    ) -> None:
        self._library, self._config, self._queries, self._tell = library, config, queries, tell
        self._known: dict[frozenset[tuple[str, Any]], Scores] = {}

    def __call__(self, values: Values) -> Scores:
        """Return nDCG@10 of each query."""
        known = frozenset(values.items())
        if known not in self._known:
            self._known[known] = self._ask(values)
        return self._known[known]

    def _ask(self, values: Values) -> Scores:
        asked = self._library.answering_with(settings_of(self._config, values))
        before = len(self._known) * len(self._queries)
        scores = []
        for number, query in enumerate(self._queries, start=1):
            scores.append(score_query(query, ask_unseen(asked, query, _RANKED))["nDCG@10"])
            self._tell(before + number)
        return np.array(scores)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What tuning will take: every query is asked once with each setting, the defaults among them,
    and some with several settings together.
    """

    queries: int
    settings: int
    seconds: float  # for each setting by itself


def estimate_time(
    library: Library,
    config: Config,
    queries: Sequence[LabeledQuery],
    clock: Callable[[], float] = perf_counter,
) -> Estimate:
    """Ask two queries with each setting, and take the second ones' time for that of all: with the
    first ones the models are loaded.
    """
    tried = [{}, *(choice.values for axis in open_axes(config) for choice in axis)]
    seconds = 0.0
    for query in queries[:2]:
        began = clock()
        for values in tried:
            ask_unseen(library.answering_with(settings_of(config, values)), query, _RANKED)
        seconds = clock() - began
    return Estimate(len(queries), len(tried), seconds * len(queries))


def tune(
    library: Library,
    config: Config,
    given: Sequence[LabeledQuery] = (),
    progress: Callable[[Progress], None] = lambda _: None,
    announce: Callable[[Estimate], object] = lambda _: None,
) -> Tuning:
    """Choose among the grid by the folder's own queries and those `given`; `config` is what holds
    without tuning.

    Writes nothing.

    The library is of one folder and has its vectors, vocabulary and models ready. A choice is taken
    where its cross-validated gain lies above zero with its whole interval, and no kind of query
    loses by it. What it will take is announced before it begins.
    """
    began = perf_counter()
    notes = library.notes()
    own = queries_from_links(notes, MOST_TELLING, TELLING)
    deciding = (*own, *(replace(each, id=f"{GIVEN}-{each.id}", kind=GIVEN) for each in given))
    model = library.status()[0].state.model
    if reason := _nothing_to_tune(config, deciding):
        return Tuning(
            {},
            reason,
            len(deciding),
            len(set(group_by_document(deciding).tolist())),
            model,
            seconds=perf_counter() - began,
        )
    patient = library.answering_with(library.config.query.with_stages("rerank")).remembering()
    names = queries_from_links(
        notes, MOST_NAMES, tuple(kind for kind in LINK_KINDS if kind not in TELLING)
    )
    expected = estimate_time(patient, config, deciding)
    announce(expected)
    folder, questions, steps = (
        library.folders[0][0],
        expected.queries * expected.settings,
        (FOLDS + 1) * len(open_axes(config)),
    )
    decided = count(1)

    def tell(asked: int) -> None:
        if asked <= questions:
            progress(Progress(folder, "each setting by itself", asked, questions))

    def step() -> None:
        progress(Progress(folder, "settings together", next(decided), steps))

    measure, watch = Asker(patient, config, deciding, tell), Asker(patient, config, names)
    return replace(
        decide_tuning(measure, watch, config, deciding, names, step),
        model=model,
        seconds=perf_counter() - began,
    )


def _nothing_to_tune(config: Config, deciding: Sequence[LabeledQuery]) -> str:
    """Say why there is nothing to measure; empty where there is something."""
    if len(deciding) < LEAST_QUERIES:
        counts = Counter(query.kind for query in deciding)
        of_kinds = ", ".join(
            f"{kind} {counts[kind]}" for kind in (*TELLING, *sorted(counts.keys() - {*TELLING}))
        )
        return (
            f"There {'is 1 query' if len(deciding) == 1 else f'are {len(deciding)} queries'} to "
            f"tune by ({of_kinds}; headings and titles do not "
            f"decide), fewer than {LEAST_QUERIES}: the defaults stay. More come from a file of "
            "your own: --queries FILE."
        )
    return (
        ""
        if any(open_axes(config))
        else (
            "The configuration itself states all that the grid would change: nothing is left to "
            "tune."
        )
    )


def decide_tuning(
    measure: Measure,
    watch: Measure,
    config: Config,
    deciding: Sequence[LabeledQuery],
    names: Sequence[LabeledQuery],
    step: Step = lambda: None,
) -> Tuning:
    """Choose by what `measure` says of the queries that decide; `watch` is asked of names only
    where there is something to take.
    """
    axes, groups = open_axes(config), group_by_document(deciding)
    tried = tuple(
        Tried(choice, interval(measure(choice.values) - measure({}), groups))
        for axis in axes
        for choice in axis
    )
    gain = interval(cross_validate(axes, measure, groups, step), groups)
    chosen = choose(axes, measure, groups, np.ones(len(groups), dtype=np.bool_), step)
    values, choices = joint_values(chosen), tuple(choice.name for choice in chosen)
    kinds = _by_kind(deciding, measure({}), measure(values), decides=True)
    better = bool(chosen) and gain.low > 0
    if better:
        kinds |= _by_kind(names, watch({}), watch(values), decides=False)
    losing = {
        kind: each
        for kind, each in kinds.items()
        if each.queries >= LEAST_OF_A_KIND and each.after < each.before - MOST_LOST
    }
    reason = _reason(choices, gain, losing, better, len(deciding))
    return Tuning(
        values if better and not losing else {},
        reason,
        len(deciding),
        len(set(groups.tolist())),
        "",
        choices,
        gain,
        kinds,
        tried,
    )


def _by_kind(
    queries: Sequence[LabeledQuery], before: Scores, after: Scores, *, decides: bool
) -> dict[str, OfKind]:
    found = {}
    for kind in dict.fromkeys(query.kind for query in queries):
        own = np.array([query.kind == kind for query in queries])
        found[kind] = OfKind(
            int(own.sum()), float(before[own].mean()), float(after[own].mean()), decides
        )
    return found


def _reason(
    choices: Sequence[str], gain: Interval, losing: Mapping[str, OfKind], better: bool, queries: int
) -> str:
    measured = (
        f"nDCG@10, a score from 0 to 1, changes by {gain.mean:+.3f} [{gain.low:+.3f}, "
        f"{gain.high:+.3f}], cross-validated on {queries:,} queries"
    )
    if not better:
        return (
            "The defaults stay: of the settings tried, none is clearly better for these notes "
            f"({measured})."
        )
    if losing:
        lost = ", ".join(
            f"{kind} {each.before:.3f} to {each.after:.3f}" for kind, each in losing.items()
        )
        return (
            f"The defaults stay: {'; '.join(choices)} would help most queries ({measured}), but "
            f"some kinds lose ({lost})."
        )
    return f"Better for these notes: {'; '.join(choices)} ({measured})."
