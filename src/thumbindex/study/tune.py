"""Decide from a vault's own queries by which settings it is asked: the defaults stay unless others are better beyond what noise can do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from thumbindex.model import Progress
from thumbindex.settings import Config
from thumbindex.study.bootstrap import Interval
from thumbindex.study.cross_validate import Measure, Scores, choose, cross_validate, group_by_document, interval, together
from thumbindex.study.from_links import KINDS, TELLING, ask_unseen, queries_from_links
from thumbindex.study.grid import Choice, Values, open_axes, settings_of
from thumbindex.study.measures import score_query
from thumbindex.study.queries import LabeledQuery

if TYPE_CHECKING:
    from thumbindex.library import Library

LEAST_QUERIES = 30
"""Fewer tell nothing: their interval is wider than any gain that was ever measured for a setting."""

MOST_TELLING, MOST_NAMES = 200, 80
"""Queries that decide, and names that are only watched: enough for ±0.02, and asked in minutes."""

TOLERANCE = 0.005
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

    def __init__(self, library: Library, config: Config, queries: Sequence[LabeledQuery], tell: Callable[[Progress], None]) -> None:
        self._library, self._config, self._queries, self._tell = library, config, queries, tell
        self._known: dict[frozenset[tuple[str, Any]], Scores] = {}
        self.rounds = 1  # as many as are expected

    def __call__(self, values: Values) -> Scores:
        """Return nDCG@10 of each query."""
        known = frozenset(values.items())
        if known not in self._known:
            self._known[known] = self._ask(values)
        return self._known[known]

    def _ask(self, values: Values) -> Scores:
        asked = self._library.answering_with(settings_of(self._config, values))
        began = len(self._known) * len(self._queries)
        self.rounds = max(self.rounds, len(self._known) + 1)
        scores = []
        for number, query in enumerate(self._queries, start=1):
            scores.append(score_query(query, ask_unseen(asked, query, _RANKED))["nDCG@10"])
            self._tell(Progress(self._library.folders[0][0], "tuning", began + number, self.rounds * len(self._queries)))
        return np.array(scores)


def tune(library: Library, config: Config, given: Sequence[LabeledQuery] = (), progress: Callable[[Progress], None] = lambda _: None) -> Tuning:
    """Choose among the grid by the folder's own queries and those `given`; `config` is what holds without tuning. Writes nothing.

    The library is of one folder and has its vectors, vocabulary and models ready. A choice is taken where its cross-validated gain lies above
    zero with its whole interval, and no kind of query loses by it.
    """
    began = perf_counter()
    notes = library.notes()
    own = queries_from_links(notes, MOST_TELLING, TELLING)
    deciding = (*own, *(replace(each, id=f"{GIVEN}-{each.id}", kind=GIVEN) for each in given))
    model = library.status()[0].state.model
    if reason := _nothing_to_tune(config, deciding):
        return Tuning({}, reason, len(deciding), len(set(group_by_document(deciding).tolist())), model, seconds=perf_counter() - began)
    patient = library.answering_with(replace(library.config.query, rerank=replace(library.config.query.rerank, enabled=True))).remembering()
    names = queries_from_links(notes, MOST_NAMES, tuple(kind for kind in KINDS if kind not in TELLING))
    measure, watch = (Asker(patient, config, queries, progress) for queries in (deciding, names))
    measure.rounds = 1 + sum(map(len, open_axes(config)))
    return replace(decide(measure, watch, config, deciding, names), model=model, seconds=perf_counter() - began)


def _nothing_to_tune(config: Config, deciding: Sequence[LabeledQuery]) -> str:
    """Say why there is nothing to measure; empty where there is something."""
    if len(deciding) < LEAST_QUERIES:
        counts = Counter(query.kind for query in deciding)
        of_kinds = ", ".join(f"{kind} {counts[kind]}" for kind in (*TELLING, *sorted(counts.keys() - {*TELLING})))
        return (
            f"There {'is 1 query' if len(deciding) == 1 else f'are {len(deciding)} queries'} to tune by ({of_kinds}; headings and titles do not "
            f"decide), fewer than {LEAST_QUERIES}: the defaults stay. More come from a file of your own: --queries FILE."
        )
    return "" if any(open_axes(config)) else "The configuration itself states all that the grid would change: nothing is left to tune."


def decide(measure: Measure, watch: Measure, config: Config, deciding: Sequence[LabeledQuery], names: Sequence[LabeledQuery]) -> Tuning:
    """Choose by what `measure` says of the queries that decide; `watch` is asked of names only where there is something to take."""
    axes, groups = open_axes(config), group_by_document(deciding)
    tried = tuple(Tried(choice, interval(measure(choice.values) - measure({}), groups)) for axis in axes for choice in axis)
    gain = interval(cross_validate(axes, measure, groups), groups)
    chosen = choose(axes, measure, groups, np.ones(len(groups), dtype=np.bool_))
    values, choices = together(chosen), tuple(choice.name for choice in chosen)
    kinds = _by_kind(deciding, measure({}), measure(values), decides=True)
    better = bool(chosen) and gain.low > 0
    if better:
        kinds |= _by_kind(names, watch({}), watch(values), decides=False)
    losing = {kind: each for kind, each in kinds.items() if each.queries >= LEAST_OF_A_KIND and each.after < each.before - TOLERANCE}
    reason = _reason(choices, gain, losing, better, len(deciding))
    return Tuning(values if better and not losing else {}, reason, len(deciding), len(set(groups.tolist())), "", choices, gain, kinds, tried)


def _by_kind(queries: Sequence[LabeledQuery], before: Scores, after: Scores, *, decides: bool) -> dict[str, OfKind]:
    found = {}
    for kind in dict.fromkeys(query.kind for query in queries):
        own = np.array([query.kind == kind for query in queries])
        found[kind] = OfKind(int(own.sum()), float(before[own].mean()), float(after[own].mean()), decides)
    return found


def _reason(choices: Sequence[str], gain: Interval, losing: Mapping[str, OfKind], better: bool, queries: int) -> str:
    measured = f"{gain.mean:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}] nDCG@10, cross-validated on {queries:,} queries"
    if not better:
        return f"Nothing in the grid is better beyond what noise can do ({measured}): the defaults stay."
    if losing:
        lost = ", ".join(f"{kind} {each.before:.3f} to {each.after:.3f}" for kind, each in losing.items())
        return f"{'; '.join(choices)} would gain ({measured}), but some kinds lose ({lost}): the defaults stay."
    return f"{'; '.join(choices)}: {measured}."
