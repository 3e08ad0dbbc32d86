"""Stage confidence: how sure it is that the first page answers, and whether anything does, from
cosines and words, never from fused ranks.

Two things speak for a page, and each of them alone is fooled: that it stands out by meaning from
all the others (one page of a subject always does, a little), and that the part of it which is
nearest to the question holds the question's words, the rare ones above all. The name of the subject
does neither: all pages are near to it, and all hold it (docs/evaluation.md has the measures).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import or_
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from thumbindex.language import reads_language
from thumbindex.model import Candidate, ChunkId, DocumentId, DroppedChunk
from thumbindex.ports import Mask, Matrix, Selection, Vector, VectorIndex, inner_products
from thumbindex.query.retrieve import OWN_WORDS, chunks_of, field_weights
from thumbindex.query.stage import Phrasing, Search, Tools
from thumbindex.query.understand import stops_of

A_WORD, WORDS_ALONE = 0.05, 0.73
"""What words alone say where one section holds next to none of them, and all: they may stand in a
text that does not answer.
"""

MEANING, GROUNDED = 0.4, 0.6
"""Shares of the evidence."""

COMMON, OUTSTANDING = 3.0, 6.5
"""By how many standard deviations the nearest of a few thousand chunks stands out whatever is
asked, and by how many a page that answers.
"""

DISTINCT = 1.5
"""So many times as far as a page that answers must stand out, and it is of the question's subject,
whatever else the notes are about.
"""

PAGES = 5
"""Nothing is refused that one of so many pages may answer: the right one need not be first."""

NEAREST = 3
"""Of what is refused so many pages are named: one in some forty questions that the notes do answer
is refused.
"""

SAMPLE = 512
"""Chunks, spread evenly, that show how near any text is to a question."""

DENSER = 8
"""At most so many times as many are looked at where most have no vector yet: of thirty nobody can
tell what stands out.
"""

USUAL, USUAL_SPREAD = 4, 0.08
"""Of a handful of chunks mean and spread are a matter of luck: so many more are taken to be about
0, with the usual spread.
"""

COMPARED, FEW = 256, 8
"""Of those, as many as are compared with each other, to see what is near and far in these notes; of
fewer than eight nothing can be seen.
"""

NEAR, LEAST_SPAN = 0.5, 0.25
"""What is near in a handful of notes, and by how much at least it is nearer than what is far."""

STRANGE, FAMILIAR = 0.3, 0.6
"""Between far (0) and near (1): where the best page of a question on another subject lies, and of
one on theirs.
"""

MADE_UP = "passage"
"""The phrasing that vouches for nothing."""

_DAY = re.compile(r"(?:[^\n]*/)?(\d{4}-\d\d-\d\d)(?:\.\w+)?")

DIGITS = 6
"""Of a cosine: beyond these two ways of computing it differ."""


@dataclass(frozen=True, slots=True, eq=False)
class QueryTerm:
    """A word, phrase or whole identifier of a query: how much it says, and which chunks hold it."""

    text: str
    idf: float
    holding: Selection

    def is_in(self, chunks: Sequence[ChunkId]) -> bool:
        """Tell whether one of these chunks holds it."""
        return bool(self.holding.among(chunks).any())

    def is_code(self) -> bool:
        """Tell whether it has digits: unless a model knows it as a whole, it reads pieces only (of
        BL-52003: bl, -, 52, 00, 3).
        """
        return any(character.isdigit() for character in self.text)


def confidence(search: Search, tools: Tools) -> Search:
    """Weigh the evidence, abstain where there is next to none, and drop candidates below the
    minimum relevance.
    """
    settings = tools.settings.confidence
    pages: dict[DocumentId, Candidate] = {}
    for each in search.candidates:
        pages.setdefault(each.document, each)
    firsts, evidence = list(pages.values())[:PAGES], PageEvidence(search, tools)
    named = any(each.name_kind for each in search.candidates)
    first = evidence.weigh(firsts[0]) if firsts and not named else 0.0
    sure = 1.0 if named else first
    if not named and (_is_unmet_day(search, tools) or _asks_nothing(search, tools)):
        sure = min(sure, settings.doubt) / 2
    # it is what was asked for, whatever words it has
    if firsts and firsts[0].document in search.of_time:
        sure = max(sure, settings.abstain)
    search = replace(
        search, confidence=sure, confidence_level="high" if sure >= settings.doubt else "low"
    )
    weights = [first, *map(evidence.weigh, firsts[1:])] if sure < settings.abstain else []
    if weights and all(weight < settings.abstain for weight in weights[1:]):
        reason = (
            f"confidence {sure:.2f} is below {settings.abstain:.2f}: nothing in the index answers "
            "this"
        )
        # of gibberish nothing is near
        near = tuple(each for each, weight in zip(firsts, weights, strict=False) if weight)
        return replace(
            _drop(search, search.candidates, reason, tools),
            candidates=(),
            answerable=False,
            nearest=near[:NEAREST],
        )
    weak = tuple(c for c in search.candidates if c.score < settings.minimum_relevance)
    search = _drop(
        search,
        weak,
        f"score below the minimum relevance of {settings.minimum_relevance:.2f}",
        tools,
    )
    return replace(
        search,
        candidates=tuple(c for c in search.candidates if c.score >= settings.minimum_relevance),
    )


def _is_unmet_day(search: Search, tools: Tools) -> bool:
    """Tell whether a query is, whole, the name of a daily note that is not there: those of near
    days have the same form and most of its words.
    """
    day = _DAY.fullmatch(search.text.strip())
    return day is not None and not tools.snapshot.keyword.holding_phrase(day[1])


def _asks_nothing(search: Search, tools: Tools) -> bool:
    """Tell whether a query holds function words alone: what holds them is no answer, however near
    it is.
    """
    stops = stops_of(search.text, tools.snapshot.keyword.languages)
    return bool(search.terms) and all(stops.get(term.text) == 0 for term in search.terms)


class PageEvidence:
    """What speaks for the pages of a search; looked for when the first of them is weighed."""

    def __init__(self, search: Search, tools: Tools) -> None:
        self._search, self._tools = search, tools
        self._known: dict[tuple[str, bool], Selection] = {}

    def weigh(self, best: Candidate) -> float:
        """Return a confidence from 0 to 1 that a page answers, by its best candidate: the mean of
        what the query and each rewording say.

        The query's own words weigh as much as in the search; a rewording of which no word is known
        says nothing. An answer that was made up can take from it and never adds to it.
        """
        own, *others = (
            (each.name, self._weigh_by(each, best))
            for at, each in enumerate(self._ways)
            if at == 0 or each.known
        )
        said = [own[1]] * (round(OWN_WORDS) if others else 1)
        asked = said + [value for name, value in others if name != MADE_UP]
        every = said + [value for _, value in others]
        return min(sum(asked) / len(asked), sum(every) / len(every))

    def _weigh_by(self, way: Way, best: Candidate) -> float:
        """Weigh by one phrasing.

        Words alone count where there is no vector of the page yet, or its language is one that the
        model does not read.

        Of a phrasing with codes in it the words' verdict has the codes' share: of them a vector
        says next to nothing.
        """
        catalog, embedder = self._tools.snapshot.catalog, self._tools.embedder
        page = chunks_of(best.document, self._tools)
        if (
            embedder is not None
            and reads_language(catalog.documents[best.document].language, embedder.knows)
            and way.vector is not None
        ):
            cosines = np.round(self._tools.cosines(page, way.vector), DIGITS)
            if not math.isnan(cosines[page.index(best.id)]):
                meaning = (
                    self._notes.standing(way.vector, float(np.nanmax(cosines)), page) * way.known
                )
                on_page = [(each.idf, each.holding.among(page)) for each in way.asked]
                read = MEANING * meaning + GROUNDED * grounding(cosines, on_page)
                if way.codes:
                    return read + way.codes * (self._weigh_by_words(way, best) - read)
                return read
        return self._weigh_by_words(way, best)

    def _weigh_by_words(self, way: Way, best: Candidate) -> float:
        section = [
            each.id
            for each in self._search.candidates
            if each.document == best.document and each.chunk.section == best.chunk.section
        ]
        held = share(way.asked, [each.is_in(section) for each in way.asked])
        return A_WORD + (WORDS_ALONE - A_WORD) * held if held else 0.0

    @cached_property
    def _ways(self) -> Sequence[Way]:
        knows = self._tools.embedder.knows if self._tools.embedder else lambda word: False
        ways = []
        for each in self._search.ways:
            terms = query_terms(each, self._tools, self._known)
            known = share(terms, [bool(term.holding) or knows(term.text) for term in terms])
            codes = share(terms, [term.is_code() and not knows(term.text) for term in terms])
            ways.append(Way(each.name, each.vector, terms, known=known, codes=codes))
        return ways

    @cached_property
    def _notes(self) -> Sample:
        return sample_of(self._search.within, self._tools)


class Way(NamedTuple):
    """A phrasing, as evidence is weighed by it."""

    name: str
    vector: Vector | None
    asked: Sequence[QueryTerm]
    # the share of what is asked that some text holds or the model knows: it makes a vector of
    # gibberish, too
    known: float
    codes: float  # the share of what is asked of which the model reads pieces only


class Sample:
    """Some chunks of a snapshot, those that have a vector: how near any text is to a question, and
    how near they are to each other.
    """

    def __init__(self, within: Selection | None, tools: Tools) -> None:
        count = len(tools.snapshot.catalog) if within is None else len(within)
        step = 1 + count // SAMPLE
        self.chunks, self._vectors, share = _drawn(step, within, tools)
        if share < 1 / 2 and (denser := max(1, int(step * max(share, 1 / DENSER)))) < step:
            self.chunks, self._vectors, _ = _drawn(denser, within, tools)
        self._subject = subject_of(self._vectors[:: 1 + len(self.chunks) // COMPARED])

    def standing(self, query: Vector, cosine: float, page: Collection[ChunkId]) -> float:
        """Return how far a page stands out from all others, 0 to 1; a question that is on another
        subject than the notes is near to none.

        One that stands out very far is of the question's subject, whatever most notes are about and
        however alike they are.
        """
        own = set(page)
        elsewhere = np.array([n not in own for n in self.chunks], dtype=np.bool_)
        others = np.round(inner_products(self._vectors, query), DIGITS)[elsewhere]
        far, near = self._subject
        above = deviations(cosine, others)
        familiar = max(
            ramp((cosine - far) / (near - far), STRANGE, FAMILIAR),
            ramp(above, OUTSTANDING, DISTINCT * OUTSTANDING),
        )
        return ramp(above, COMMON, OUTSTANDING) * familiar


def _drawn(
    step: int, within: Selection | None, tools: Tools
) -> tuple[Sequence[ChunkId], Matrix, float]:
    """Return every so manieth chunk, those that have a vector, with the vectors; and which share of
    all that is.
    """
    chunks = tools.snapshot.catalog.every(step, within)
    vectors = tools.snapshot.vector.vectors(chunks)
    held = ~np.isnan(vectors[:, 0])
    return (
        [n for n, is_held in zip(chunks, held.tolist(), strict=True) if is_held],
        vectors[held],
        float(held.mean()) if len(chunks) else 1.0,
    )


_SAMPLES: WeakKeyDictionary[VectorIndex, Sample] = WeakKeyDictionary()
"""Those of whole indexes, as long as they are searched: they stay the same from question to
question.

Several folders are united for each anew.
"""


def sample_of(within: Selection | None, tools: Tools) -> Sample:
    """Return a sample of what may be found."""
    snapshot = tools.snapshot
    repeated = snapshot.duplicates.repeated()
    repeats = 0 if repeated is None else len(repeated)
    if within is not None and len(within) < len(snapshot.catalog) - repeats:
        return Sample(within, tools)
    if (found := _SAMPLES.get(snapshot.vector)) is None:
        found = _SAMPLES[snapshot.vector] = Sample(within, tools)
    return found


def subject_of(vectors: Matrix) -> tuple[float, float]:
    """Return the mean cosine of some chunks to each other, and the median of each one's to its
    nearest: what is far in these notes, and near.
    """
    if len(vectors) < FEW:
        return 0.0, NEAR
    cosines = inner_products(vectors, vectors)
    np.fill_diagonal(cosines, np.nan)
    far = float(np.nanmean(cosines))
    return far, max(float(np.median(np.nanmax(cosines, axis=1))), far + LEAST_SPAN)


def deviations(cosine: float, others: Vector) -> float:
    """Return by how many standard deviations a cosine is above those of other chunks."""
    mean = float(others.sum()) / (len(others) + USUAL)
    squares = float(np.square(others - mean).sum()) + USUAL * USUAL_SPREAD**2
    return (cosine - mean) / math.sqrt(squares / (len(others) + USUAL))


def ramp(value: float, low: float, high: float) -> float:
    """Return where a value lies between two others, 0 to 1."""
    return min(max((value - low) / (high - low), 0.0), 1.0)


def share(asked: Sequence[QueryTerm], counted: Sequence[bool]) -> float:
    """Return the share of what is asked, by idf, that counts; 0 where nothing is asked."""
    whole = sum(each.idf for each in asked)
    if not whole:
        return 0.0
    return sum(each.idf for each, counts in zip(asked, counted, strict=True) if counts) / whole


def query_terms(
    phrasing: Phrasing, tools: Tools, known: dict[tuple[str, bool], Selection] | None = None
) -> tuple[QueryTerm, ...]:
    """Return the words that a phrasing asks for, and its identifiers as wholes: their parts may
    stand anywhere.

    `known` keeps what was looked up.
    """
    keyword, total, known = (
        tools.snapshot.keyword,
        len(tools.snapshot.catalog),
        {} if known is None else known,
    )
    fields = tuple(field_weights(tools.settings.search_keyword).fields)

    def holding(text: str, written: bool) -> Selection:
        if (text, written) not in known:
            found = keyword.holding(text, ("code",))
            known[text, written] = found if written else found | keyword.holding(text, fields)
        return known[text, written]

    words = {term.text: tuple(other.text for other in term.others) for term in phrasing.terms}
    held = [
        (text, reduce(or_, [holding(form, False) for form in (text, *others)]))
        for text, others in sorted(words.items())
    ]
    held += [
        (term.text, holding(term.text, True))
        for term in phrasing.identifiers
        if term.weight > 1 and term.text not in words
    ]
    return tuple(QueryTerm(text, _idf(len(chunks), total), chunks) for text, chunks in held)


def grounding(cosines: Vector, asked: Sequence[tuple[float, Mask]]) -> float:
    """Return how near, against the best chunk of a page, those come to the query that hold its
    words; 0 for a word that none holds.

    Of each word its idf and which of the page's chunks hold it. The square of the idf is its
    weight: the rarest word says most about what is asked. A chunk without a vector counts as the
    best.
    """
    best, whole = float(np.nanmax(cosines)), sum(idf**2 for idf, _ in asked)
    if best <= 0 or not whole:
        return 0.0
    near = np.nan_to_num(cosines, nan=best)
    nearest = (float(near[held].max(initial=0.0)) for _, held in asked)
    return (
        sum(idf**2 * cosine / best for (idf, _), cosine in zip(asked, nearest, strict=True)) / whole
    )


def _idf(frequency: int, total: int) -> float:
    return math.log(1 + (total - frequency + 0.5) / (frequency + 0.5))


def _drop(search: Search, candidates: tuple[Candidate, ...], reason: str, tools: Tools) -> Search:
    documents = tools.snapshot.catalog.documents
    gone = tuple(
        DroppedChunk(documents[c.document].path, c.chunk.start_line, reason) for c in candidates
    )
    return replace(search, dropped=(*search.dropped, *gone))
