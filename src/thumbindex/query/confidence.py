"""Stage confidence: the likelihood that the best document answers the query.

The confidence combines two signals, because neither is reliable alone:

- Prominence: the highest cosine of the document's chunks is far above the cosines of other
  documents' chunks.
- Grounding: the chunks of the document that are nearest to the query contain the query's words,
  and are about them: without a word, the query is farther from the nearest chunk. Rare words count
  most. A long query may miss more of its words than a short one.

The confidence does not depend on the scores from fusion.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import or_
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thumbindex.language import FUNCTION_WORDS, reads_language
from thumbindex.model import Candidate, ChunkId, DocumentId, DroppedChunk, Term
from thumbindex.ports import Cosines, Mask, Matrix, Selection, Vector, inner_products
from thumbindex.query.match_names import has_only_function_words
from thumbindex.query.retrieve import COSINE_DIGITS, chunk_ids_of, field_weights
from thumbindex.query.stage import Phrasing, Search, Tools
from thumbindex.text import STOP_WORDS, identifiers, words

_MIN_KEYWORD_CONFIDENCE, MAX_KEYWORD_CONFIDENCE = 0.05, 0.73
"""Lowest and highest confidence without vectors, if the document contains a word of the query."""

_VECTOR_WEIGHT, _GROUNDING_WEIGHT = 0.4, 0.6
"""Weights of prominence and grounding in the confidence."""

_MIN_DEVIATIONS, _MAX_DEVIATIONS = 3.0, 8.0
"""Between these numbers of standard deviations above the mean cosine, the prominence rises from 0
to 1.
"""

_ELSEWHERE = 0.5
"""Weight of a word in the document, but not in its best chunk, if there are no cosines."""

_SHORT_QUERY = 4
"""A section that answers a query of at most this many terms contains most of them. Longer queries
contain words that the section lacks.
"""

_FUNCTION_WORD_LETTERS = frozenset("".join(sorted(word)) for word in STOP_WORDS)
"""Function words with their letters in order. An unknown word of the same letters counts as a typo:
`hwo`, `teh`. Without a model, so does a real word that no note has: `form` for `from`.
"""

_DOCUMENTS_SCORED = 5
"""All candidates are dropped only if this many of the best documents all score below
`abstain_below`.
"""

_NEAREST_SHOWN = 2
"""Maximum documents that are shown if none is likely to answer the query."""

SAMPLE_SIZE = 512
"""Number of evenly spaced chunks that are sampled to represent all notes."""

_MAX_DENSITY = 8
"""If most of the sampled chunks have no vector, up to this many times as many are sampled."""

_PRIOR_COUNT, _PRIOR_SPREAD = 16, 0.08
"""Pseudo-count and standard deviation of a prior with mean 0. `mean_and_deviation` adds the prior
to the cosines, so that small samples give stable results.
"""

_MAX_LEFT_OUT = 12
"""The query is embedded without each of at most this many words, the rarest."""

_SHARE_KEPT = 0.75
"""Share of the phrasings whose scores count, the lowest."""

_OWN_SHARE = 0.4
"""The score is at least this share of the score of the query's own words."""

_HYPOTHETICAL = "passage"
"""Name of the phrasing for the hypothetical answer, which never raises the confidence."""

_DOTTED_KEY = re.compile(r"(?:[^\W\d]\w*\.)+[^\W\d]\w*")
"""A setting such as `server.tls.port`. Files nest its parts, or name a table by the first ones."""

_DAILY_NOTE = re.compile(r"(?:[^\n]*/)?(\d{4}-\d\d-\d\d)(?:\.\w+)?")


def confidence(search: Search, tools: Tools) -> Search:
    """Set the confidence of the answer. Unless the query has a limit, drop irrelevant candidates.

    If none of the best documents is likely to answer the query, keep only the nearest candidates
    that share a word with it.
    """
    settings = tools.settings.confidence
    best_by_document: dict[DocumentId, Candidate] = {}
    for candidate in search.candidates:
        best_by_document.setdefault(candidate.document, candidate)
    best = list(best_by_document.values())[:_DOCUMENTS_SCORED]
    scorer = _DocumentScorer(search, tools)
    is_named = any(candidate.name_kind for candidate in search.candidates)
    first = scorer.score(best[0]) if best and not is_named else 0.0
    certainty = 1.0 if is_named else first
    shared = tools.snapshot.duplicates.shared()
    is_shared = bool(shared is not None and best and shared.among([best[0].id])[0])
    if not is_named and (
        is_shared
        or _names_missing_daily_note(search, tools)
        or has_only_function_words(search, tools)
        or any(unmet.field == "words" for unmet in search.unmet)
    ):
        certainty = min(certainty, settings.low_below) / 2
    if best and best[0].document in search.date_matches:  # the query contains its day
        certainty = max(certainty, settings.abstain_below)
    level = "high" if certainty >= settings.low_below else "low"
    search = replace(search, confidence=certainty, confidence_level=level)
    scores = [first, *map(scorer.score, best[1:])] if certainty < settings.abstain_below else []
    if scores and all(score < settings.abstain_below for score in scores[1:]):
        shown = math.floor(100 * certainty) / 100  # rounding must not reach the threshold
        reason = (
            f"confidence {shown:g} is below {settings.abstain_below:g}: "
            "nothing in the index answers this"
        )
        near = [candidate.id for candidate in best if scorer.shares_word(candidate)]
        others = [each for each in search.candidates if each.id not in near[:_NEAREST_SHOWN]]
        return _drop_candidates(replace(search, found=False), others, reason, tools)
    if search.query.limit is not None:  # the answer has that many passages
        return search
    minimum = settings.minimum_relevance
    weak = [candidate for candidate in search.candidates if candidate.score < minimum]
    reason = f"score below the minimum relevance of {minimum:.2f}"
    return _drop_candidates(search, weak, reason, tools)


def _drop_candidates(
    search: Search, dropped: Iterable[Candidate], reason: str, tools: Tools
) -> Search:
    documents = tools.snapshot.catalog.documents
    records = {
        candidate.id: DroppedChunk(
            documents[candidate.document].path, candidate.chunk.start_line, reason
        )
        for candidate in dropped
    }
    return replace(
        search,
        candidates=tuple(
            candidate for candidate in search.candidates if candidate.id not in records
        ),
        dropped=(*search.dropped, *records.values()),
    )


def _names_missing_daily_note(search: Search, tools: Tools) -> bool:
    """Return whether the query names a missing daily note. Parts of its date match others."""
    day = _DAILY_NOTE.fullmatch(search.text.strip())
    return day is not None and not tools.snapshot.keyword.chunks_with_phrase(day[1])


@dataclass(frozen=True, slots=True, eq=False)
class _QueryTerm:
    """A word, phrase or whole identifier of a query, its idf, and the chunks that contain it."""

    text: str
    idf: float
    chunks: Selection

    def has_digits(self) -> bool:
        return any(character.isdigit() for character in self.text)


class _WeighedPhrasing(NamedTuple):
    """A phrasing with its terms, and the idf-weighted fractions of known terms and of codes."""

    name: str
    vector: Vector | None
    terms: Sequence[_QueryTerm]
    known: float  # terms in the notes or in the model's vocabulary; gibberish has a vector, too
    codes: float  # codes, such as BL-52003, which a model splits into bl, -, 52, 00, 3


class _DocumentScorer:
    def __init__(self, search: Search, tools: Tools) -> None:
        self._search, self._tools = search, tools
        self._selections: dict[tuple[str, bool], Selection] = {}

    def score(self, best: Candidate) -> float:
        """Score a candidate's document: the mean of its scores for the query and the rewordings.

        The best quarter is left out, because some rewording matches by chance. Rewordings without a
        known word are ignored. A hypothetical answer can only lower the score.
        """
        scores = {
            phrasing.name: self._score_by(phrasing, best)
            for at, phrasing in enumerate(self._phrasings)
            if at == 0 or phrasing.known
        }
        most = max(score for name, score in scores.items() if name != _HYPOTHETICAL)
        lower = sorted(min(score, most) for score in scores.values())
        kept = lower[: max(round(_SHARE_KEPT * len(lower)), 1)]
        # rewordings of another subject must not hide the answer to the query
        own = next(iter(scores.values()))
        return max(sum(kept) / len(kept), _OWN_SHARE * own)

    def shares_word(self, candidate: Candidate) -> bool:
        """Return whether a candidate has text, and a content word of the query."""
        return bool(candidate.chunk.text.strip()) and any(
            term.text not in FUNCTION_WORDS and bool(term.chunks.among([candidate.id]).any())
            for term in self._phrasings[0].terms
        )

    def _score_by(self, phrasing: _WeighedPhrasing, best: Candidate) -> float:
        """Score a candidate's document for one phrasing, by prominence and grounding."""
        catalog, embedder = self._tools.snapshot.catalog, self._tools.embedder
        chunks = self._search.keep_searchable(chunk_ids_of(best.document, self._tools))
        masks = [(term.idf, term.chunks.among(chunks)) for term in phrasing.terms]
        at = chunks.index(best.id)
        nearness = np.full(len(chunks), _ELSEWHERE)
        nearness[at] = 1.0
        share = grounding(nearness, masks)
        span = MAX_KEYWORD_CONFIDENCE - _MIN_KEYWORD_CONFIDENCE
        by_words = _MIN_KEYWORD_CONFIDENCE + span * share if share else 0.0
        if embedder is None or phrasing.vector is None:
            return by_words
        if not reads_language(catalog.documents[best.document].language, embedder.knows):
            return by_words
        cosines = np.round(self._tools.cosines(chunks, phrasing.vector), COSINE_DIGITS)
        if math.isnan(cosines[at]):
            return by_words
        nearest = float(np.nanmax(cosines))
        mean, deviation = mean_and_deviation(
            self._sample.cosines_elsewhere(phrasing.vector, chunks)
        )
        prominence = _ramp((nearest - mean) / deviation, _MIN_DEVIATIONS, _MAX_DEVIATIONS)
        # the words of rewordings were chosen by a model, not by the user
        is_typed = phrasing is self._phrasings[0]
        gains = self._gains(chunks[int(np.nanargmax(cosines))], nearest) if is_typed else 0.0
        # a chunk without a vector counts as the nearest
        nearness = np.nan_to_num(cosines, nan=nearest) / nearest if nearest > 0 else 0 * nearness
        share = grounding(nearness, masks, gains / deviation)
        score = _VECTOR_WEIGHT * prominence * phrasing.known + _GROUNDING_WEIGHT * share
        # the more codes the phrasing has, the more its words count
        return score + phrasing.codes * (by_words - score) if phrasing.codes else score

    def _gains(self, chunk: ChunkId, cosine: float) -> NDArray[np.floating]:
        """Return how much nearer a chunk is to the query without each of its terms; at least 0.

        If a chunk has a word, but is not about it, the chunk is nearer without the word.
        """
        gains = np.zeros(len(self._phrasings[0].terms))
        if self._without:
            (vector,) = self._tools.snapshot.vector.vectors([chunk])
            for has_term, without in self._without:
                nearer = round(float(inner_products(without[None], vector)[0]), COSINE_DIGITS)
                gains[has_term] = max(nearer - cosine, 0.0)
        return gains

    @cached_property
    def _without(self) -> Sequence[tuple[Mask, Vector]]:
        """The query's vector without each of its rarest words, and masks of the words' terms."""
        embedder, terms = self._tools.embedder, self._phrasings[0].terms
        tokens = (self._search.embedding_text or self._search.text).split()
        names = [{*words(token), *(name for name, _ in identifiers(token))} for token in tokens]
        masks = [np.array([term.text in each for term in terms], dtype=np.bool_) for each in names]
        idf = np.array([term.idf for term in terms])
        content = [at for at, mask in enumerate(masks) if mask.any()]
        if embedder is None or len(content) < 2:
            return ()
        rarest = sorted(content, key=lambda at: (-idf[masks[at]].max(), at))[:_MAX_LEFT_OUT]
        texts = [" ".join(tokens[:at] + tokens[at + 1 :]) for at in rarest]
        return [
            (masks[at], row) for at, row in zip(rarest, embedder.embed_queries(texts), strict=True)
        ]

    @cached_property
    def _phrasings(self) -> Sequence[_WeighedPhrasing]:
        knows = self._tools.embedder.knows if self._tools.embedder else lambda word: False
        phrasings = []
        for phrasing in self._search.all_phrasings:
            every = query_terms(phrasing, self._tools, self._selections)
            unknown = {term.text for term in every if not (term.chunks or knows(term.text))}
            typos = {text for text in unknown if "".join(sorted(text)) in _FUNCTION_WORD_LETTERS}
            terms = [term for term in every if term.text not in typos] or every
            known = [term.text not in unknown for term in terms]
            codes = [term.has_digits() and not knows(term.text) for term in terms]
            shares = _idf_share(terms, known), _idf_share(terms, codes)
            phrasings.append(_WeighedPhrasing(phrasing.name, phrasing.vector, terms, *shares))
        return phrasings

    @cached_property
    def _sample(self) -> Sample:
        return Sample(self._search.searchable, self._tools)


class Sample:
    """A sample of the notes' chunks, which shows whether a cosine is unusually high."""

    def __init__(self, within: Selection | None, tools: Tools) -> None:
        count = len(tools.snapshot.catalog) if within is None else len(within)
        step = 1 + count // SAMPLE_SIZE
        self.chunks, self._vectors, covered = _draw_sample(step, within, tools)
        if covered < 1 / 2:
            denser = max(1, int(step * max(covered, 1 / _MAX_DENSITY)))
            if denser < step:
                self.chunks, self._vectors, _ = _draw_sample(denser, within, tools)

    def cosines_elsewhere(self, query: Vector, chunks: Collection[ChunkId]) -> Cosines:
        """Return the query's cosines with the sampled chunks, except the given ones."""
        own = set(chunks)
        elsewhere = np.array([n not in own for n in self.chunks], dtype=np.bool_)
        cosines: Cosines = np.round(inner_products(self._vectors, query), COSINE_DIGITS)[elsewhere]
        return cosines


def _draw_sample(
    step: int, within: Selection | None, tools: Tools
) -> tuple[Sequence[ChunkId], Matrix, float]:
    """Sample every `step`-th chunk.

    Return the chunks with a vector, the vectors, and the fraction of the sample with a vector.
    """
    chunks = tools.snapshot.catalog.every_nth(step, within)
    vectors = tools.snapshot.vector.vectors(chunks)
    has_vector = ~np.isnan(vectors[:, 0])
    return (
        [n for n, is_drawn in zip(chunks, has_vector.tolist(), strict=True) if is_drawn],
        vectors[has_vector],
        float(has_vector.mean()) if len(chunks) else 1.0,
    )


def mean_and_deviation(cosines: Cosines) -> tuple[float, float]:
    """Return the mean and the standard deviation of cosines."""
    count = len(cosines) + _PRIOR_COUNT
    mean = float(cosines.sum()) / count
    squares = float(np.square(cosines - mean).sum()) + _PRIOR_COUNT * _PRIOR_SPREAD**2
    return mean, math.sqrt(squares / count)


def _ramp(value: float, low: float, high: float) -> float:
    return min(max((value - low) / (high - low), 0.0), 1.0)


def _idf_share(terms: Sequence[_QueryTerm], counted: Sequence[bool]) -> float:
    """Return the idf-weighted fraction of the terms with True in `counted`; 0 without terms."""
    total = sum(term.idf for term in terms)
    if not total:
        return 0.0
    return sum(term.idf for term, counts in zip(terms, counted, strict=True) if counts) / total


def query_terms(
    phrasing: Phrasing, tools: Tools, cache: dict[tuple[str, bool], Selection] | None = None
) -> tuple[_QueryTerm, ...]:
    """Return the words and the whole identifiers of a phrasing, with the chunks that contain them.

    `cache` stores the chunks that contain a text. Its keys are pairs of the text and whether the
    text was looked up verbatim.
    """
    keyword, total = tools.snapshot.keyword, len(tools.snapshot.catalog)
    cache = {} if cache is None else cache
    fields = tuple(field_weights(tools.settings.search_keyword).fields)

    def chunks_with(text: str, verbatim: bool) -> Selection:
        if (text, verbatim) not in cache:
            chunks = keyword.chunks_with_all_words(text, ("code",))
            cache[text, verbatim] = (
                chunks if verbatim else chunks | keyword.chunks_with_all_words(text, fields)
            )
        return cache[text, verbatim]

    words = {term.text: term for term in phrasing.terms}

    def chunks_with_any_form(term: Term, verbatim: bool) -> Selection:
        forms = (term, *term.forms)
        return reduce(or_, [chunks_with(form.text, verbatim) for form in forms])

    selections = [
        (
            text,
            keyword.chunks_with_phrase(text)
            if term.phrase
            else chunks_with_any_form(term, verbatim=False),
        )
        for text, term in sorted(words.items())
    ]

    def chunks_with_identifier(term: Term) -> Selection:
        chunks = chunks_with_any_form(term, verbatim=True)
        if _DOTTED_KEY.fullmatch(term.text):
            table, key = term.text.split(".")[-2:]
            chunks |= chunks_with(table, verbatim=True) & chunks_with(key, verbatim=True)
        return chunks

    selections += [
        (term.text, chunks_with_identifier(term))
        for term in phrasing.identifiers
        if term.weight > 1 and term.text not in words
    ]
    return tuple(_QueryTerm(text, _idf(len(chunks), total), chunks) for text, chunks in selections)


def grounding(
    nearness: NDArray[np.floating],
    terms: Sequence[tuple[float, Mask]],
    losses: NDArray[np.floating] | float = 0.0,
) -> float:
    """Return how close to the query the chunks with the query's words are, from 0 to 1.

    `nearness` is 1 for the nearest of a document's chunks. `terms` has each term's idf, and a mask
    of the chunks that contain the term. If the nearest chunk contains all terms, the result is 1.
    `losses` are subtracted from the nearness of each term's chunk.
    """
    if not terms:
        return 0.0
    # by the root, so that one word that no note has does not decide alone
    weights = np.sqrt([idf for idf, _ in terms])
    near = np.array([nearness[mask].max(initial=0.0) for _, mask in terms])
    share = float(np.sum(weights * (near - losses)) / np.sum(weights))
    return float(max(share, 0.0) ** min(1.0, _SHORT_QUERY / len(terms)))


def _idf(frequency: int, total: int) -> float:
    return math.log(1 + (total - frequency + 0.5) / (frequency + 0.5))
