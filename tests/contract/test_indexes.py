"""The contract of indexes: in memory, on disk and in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

import numpy as np
import pytest

from contract.makers import Make
from fakes import FakeEmbedder, document
from thumbindex.model import Abbreviation, ChunkId, DocumentId, Filters, Place, Term, TypedFilter
from thumbindex.ports import KeywordWeights, Selection, Snapshot
from thumbindex.query.parents import chunk_places
from thumbindex.query.stage import Tools

DOCUMENTS = [
    document(
        "notes/trees.md",
        "# Trees\n\nPlant a tree in spring.\n\nWater it for 30 days.",
        tags=("garden/wood",),
        properties={"status": ("doing",), "due": ("2026-12-01",), "rating": ("4", "5")},
        date="2026-03-01",
        links=["index.md"],
    ),
    document(
        "index.md",
        "# Index\n\nAll plants.\n\n## Code\n\nCall `parse_json` for plants.",
        aliases=("Overview",),
        links=["notes/trees.md", "notes/trees.md", "index.md"],
    ),
    document(
        "notes/sub/moss.md",
        "# Moss\n\nMoss grows in the shade of a tree and in spring.",
        tags=("garden",),
        properties={"status": ("Done",), "rating": ("10",)},
        date="2025-01-01",
    ),
]
BODY = KeywordWeights({"title": 3.0, "headings": 2.0, "aliases": 1.5, "body": 1.0})
CODE = KeywordWeights({"code": 1.0})
# chunks: 0-1 index.md, 2 notes/sub/moss.md, 3-4 notes/trees.md
MOSS, TREES = 1, 2


@pytest.fixture(scope="module")
def snapshot(make: Make) -> Snapshot:
    return make(DOCUMENTS)


def chunks_of(snapshot: Snapshot) -> list[ChunkId]:
    """Return the ids of all chunks in order; they differ by kind of index."""
    return list(snapshot.catalog.every_nth(1, None))


def documents_of(snapshot: Snapshot) -> list[DocumentId]:
    return [DocumentId(n) for n in range(len(snapshot.catalog.sizes))]


def positions(snapshot: Snapshot, chunks: Iterable[ChunkId]) -> list[int]:
    """Return the positions of chunks among all chunks."""
    every = chunks_of(snapshot)
    return [every.index(n) for n in chunks]


def selected(snapshot: Snapshot, selection: Selection) -> list[int]:
    return positions(snapshot, selection.first(len(selection)))


def only(snapshot: Snapshot, *at: int) -> Selection:
    return snapshot.catalog.only([chunks_of(snapshot)[n] for n in at])


def found(
    snapshot: Snapshot, *terms: Term, weights: KeywordWeights = BODY, limit: int = 10
) -> list[int]:
    return positions(
        snapshot, [hit.chunk for hit in snapshot.keyword.search(terms, weights, limit).hits]
    )


class TestKeywordIndex:
    def test_terms_are_ored_and_more_matches_score_higher(self, snapshot: Snapshot) -> None:
        hits = snapshot.keyword.search([Term("moss"), Term("tree"), Term("spring")], BODY, 10).hits
        assert positions(snapshot, [hit.chunk for hit in hits[:1]]) == [2]
        assert sorted(positions(snapshot, [hit.chunk for hit in hits])) == [2, 3, 4]

    def test_ranks_start_at_one_and_scores_descend(self, snapshot: Snapshot) -> None:
        hits = snapshot.keyword.search([Term("tree"), Term("spring")], BODY, 10).hits
        assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    def test_title_matches_all_chunks_of_its_document(self, snapshot: Snapshot) -> None:
        assert sorted(found(snapshot, Term("trees"), weights=KeywordWeights({"title": 1.0}))) == [
            3,
            4,
        ]

    def test_forms_count_at_their_weight_and_phrases_match_as_a_whole(
        self, snapshot: Snapshot
    ) -> None:
        word, phrase = (
            Term("plants", forms=(Term("moss", 0.5),)),
            Term("zebra", forms=(Term("in spring", 0.5, True), Term("tree a", 0.5, True))),
        )
        hits = snapshot.keyword.search([word], KeywordWeights({"body": 1.0}, b=0.0), 10).hits
        *plants, moss = positions(snapshot, [hit.chunk for hit in hits])
        assert (sorted(plants), moss, hits[-1].coverage) == ([0, 1, 3], 2, 1.0)
        assert sorted(found(snapshot, phrase)) == [2, 3]

    def test_phrase_frequency_counts_adjacent_words(self, snapshot: Snapshot) -> None:
        assert [
            snapshot.keyword.phrase_frequency(text)
            for text in ("in spring", "in springs", "spring in", "zebra in", "plant")
        ] == [2, 2, 0, 0, 3]

    def test_alternative_identifiers_match_as_a_whole(self, snapshot: Snapshot) -> None:
        assert found(
            snapshot, Term("zebra", forms=(Term("parse_json"), Term("plant a"))), weights=CODE
        ) == [1]

    def test_alias_is_found(self, snapshot: Snapshot) -> None:
        assert sorted(found(snapshot, Term("overview"))) == [0, 1]

    def test_plural_finds_the_singular(self, snapshot: Snapshot) -> None:
        assert found(snapshot, Term("springs"), weights=KeywordWeights({"body": 1.0})) == found(
            snapshot, Term("spring"), weights=KeywordWeights({"body": 1.0})
        )

    def test_phrase_is_required(self, snapshot: Snapshot) -> None:
        assert found(snapshot, Term("spring"), Term("tree in spring", phrase=True)) == [3]

    def test_phrase_of_one_word_is_required(self, snapshot: Snapshot) -> None:
        assert found(snapshot, Term("spring"), Term("moss", phrase=True)) == [2]

    def test_words_of_a_phrase_are_not_stemmed(self, snapshot: Snapshot) -> None:
        chunks = {
            text: selected(snapshot, snapshot.keyword.chunks_with_phrase(text))
            for text in ("plant", "all plants", "all plant", "in the shades", "tree", "overviews")
        }
        assert chunks == {
            "plant": [3],
            "all plants": [0],
            "all plant": [],
            "in the shades": [],
            "tree": [2, 3],
            "overviews": [],
        }

    def test_identifier_and_its_parts_are_found_as_code(self, snapshot: Snapshot) -> None:
        assert (
            found(snapshot, Term("parse_json"), weights=CODE),
            found(snapshot, Term("json"), weights=CODE),
        ) == ([1], [1])

    def test_code_is_not_stemmed(self, snapshot: Snapshot) -> None:
        assert (
            found(snapshot, Term("plants"), weights=CODE),
            found(snapshot, Term("plant"), weights=CODE),
        ) == ([0, 1], [3])

    def test_selection_limits_chunks_and_documents(self, snapshot: Snapshot) -> None:
        ranked = snapshot.keyword.search([Term("spring")], BODY, 10, only(snapshot, 0, 1, 3, 4))
        assert positions(snapshot, [hit.chunk for hit in ranked.hits]) == [3]
        assert set(ranked.documents) == {documents_of(snapshot)[TREES]}

    def test_all_matching_documents_are_scored_despite_the_limit(self, snapshot: Snapshot) -> None:
        ranked = snapshot.keyword.search([Term("spring")], BODY, 1)
        assert (len(ranked.hits), set(ranked.documents)) == (
            1,
            {documents_of(snapshot)[n] for n in (MOSS, TREES)},
        )

    def test_coverage_is_the_matched_share_of_idf(self, snapshot: Snapshot) -> None:
        hits = {
            positions(snapshot, [hit.chunk])[0]: hit
            for hit in snapshot.keyword.search([Term("moss"), Term("spring")], BODY, 10).hits
        }
        assert hits[2].coverage == pytest.approx(1.0)
        assert 0.0 < hits[3].coverage < 0.5

    def test_coverage_weight_multiplies_scores(self, snapshot: Snapshot) -> None:
        terms = [Term("moss"), Term("spring")]
        plain, covered = (
            snapshot.keyword.search(terms, KeywordWeights({"body": 1.0}, coverage=share), 10).hits
            for share in (0.0, 1.0)
        )
        assert covered[-1].score == pytest.approx(plain[-1].score * plain[-1].coverage, rel=1e-5)

    def test_chunks_with_all_words_matches_any_field(self, snapshot: Snapshot) -> None:
        chunks = {
            text: selected(
                snapshot, snapshot.keyword.chunks_with_all_words(text, tuple(BODY.fields))
            )
            for text in ("trees", "spring moss", "overview", "zz")
        }
        assert chunks == {"trees": [2, 3, 4], "spring moss": [2], "overview": [0, 1], "zz": []}

    def test_chunks_with_a_whole_identifier_are_found(self, snapshot: Snapshot) -> None:
        assert [
            selected(snapshot, snapshot.keyword.chunks_with_all_words(text, ("code",)))
            for text in ("parse_json", "parse_xml")
        ] == [[1], []]

    def test_chunk_frequency_counts_surface_forms(self, snapshot: Snapshot) -> None:
        assert [
            snapshot.keyword.chunk_frequency(word) for word in ("spring", "plants", "springs")
        ] == [
            2,
            2,
            0,
        ]

    def test_lexicon_returns_words_of_given_lengths(self, snapshot: Snapshot) -> None:
        words = [
            set(snapshot.keyword.lexicon(lengths))
            for lengths in (range(6, 7), range(5), range(30, 40))
        ]
        assert (
            {"spring", "plants"} <= words[0],
            "tree" in words[1],
            "spring" in words[1],
            words[2],
        ) == (True, True, False, set())

    @pytest.mark.parametrize("language", ["de", "en", "ja", ""])
    def test_languages_exclude_english(self, make: Make, language: str) -> None:
        snapshot = make([document("a.md", "# Apfel\n\nBaum.", language=language)])
        assert snapshot.keyword.languages == ({"de"} if language == "de" else set())

    def test_unknown_terms_find_nothing(self, snapshot: Snapshot) -> None:
        assert (found(snapshot, Term("zzz")), found(snapshot)) == ([], [])


@pytest.mark.parametrize(
    ("term", "chunks"),
    [
        (Term("猫"), [0, 1]),  # inside a run, and alone
        (Term("夜"), [0]),  # the last one of a run
        (Term("黒猫"), [0]),
        (Term("猫 tower", phrase=True), []),
        (Term("東京 tower", phrase=True), [1]),  # a run has as many positions as pairs
        (Term("東京 京都", phrase=True), [1]),
    ],
)
def test_chinese_and_japanese_characters_are_found_alone_and_in_phrases(
    make: Make, term: Term, chunks: list[int]
) -> None:
    documents = [
        document("a.md", "# A\n\nこの黒猫は夜。"),
        document("b.md", "# B\n\n東京tower and 東京都 are far from 猫."),
    ]
    assert sorted(found(make(documents), term)) == chunks


HALF = 2**-12
"""Relative error of half precision."""


class TestVectorIndex:
    def test_vector_is_nearest_to_itself(self, snapshot: Snapshot) -> None:
        chunk = chunks_of(snapshot)[3]
        hit = snapshot.vector.search(snapshot.vector.vectors([chunk])[0], 1)[0]
        assert (hit.chunk, hit.document, hit.rank, hit.score) == (
            chunk,
            documents_of(snapshot)[TREES],
            1,
            pytest.approx(1.0, abs=2 * HALF),
        )

    def test_each_chunk_has_a_unit_vector(self, snapshot: Snapshot) -> None:
        rows = snapshot.vector.vectors(chunks_of(snapshot))
        assert (len(snapshot.vector), np.linalg.norm(rows, axis=1).tolist()) == (
            5,
            pytest.approx([1.0] * 5, abs=HALF),
        )

    def test_scores_are_cosines_in_descending_order(self, snapshot: Snapshot) -> None:
        query = FakeEmbedder().embed_query("tree in spring")
        hits = snapshot.vector.search(query, 5)
        rows = snapshot.vector.vectors([hit.chunk for hit in hits])
        assert [hit.score for hit in hits] == pytest.approx((rows @ query).tolist(), abs=1e-5)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    def test_selection_applies_before_the_limit(self, snapshot: Snapshot) -> None:
        query = snapshot.vector.vectors([chunks_of(snapshot)[3]])[0]
        hits = snapshot.vector.search(query, 2, only(snapshot, 1, 2))
        assert sorted(positions(snapshot, [hit.chunk for hit in hits])) == [1, 2]

    def test_cosine_of_a_chunk_equals_the_score_of_its_hit(self, snapshot: Snapshot) -> None:
        query = FakeEmbedder().embed_query("tree in spring")
        hits = snapshot.vector.search(query, 3)
        assert Tools(snapshot).cosines(
            [hit.chunk for hit in hits], query
        ).tolist() == pytest.approx([hit.score for hit in hits], abs=1e-5)


class TestLinkGraph:
    def test_links_are_known_in_both_directions_once(self, snapshot: Snapshot) -> None:
        index, _, trees = documents_of(snapshot)
        assert (snapshot.graph.outgoing(index), snapshot.graph.incoming(index)) == (
            (trees,),
            (trees,),
        )

    def test_document_without_links_has_no_neighbors(self, snapshot: Snapshot) -> None:
        moss = documents_of(snapshot)[MOSS]
        assert (snapshot.graph.outgoing(moss), snapshot.graph.incoming(moss)) == ((), ())


class TestCatalog:
    def test_documents_are_ordered_by_path(self, snapshot: Snapshot) -> None:
        assert [snapshot.catalog.documents[n].path for n in documents_of(snapshot)] == [
            "index.md",
            "notes/sub/moss.md",
            "notes/trees.md",
        ]

    def test_chunks_of_a_document_are_adjacent(self, snapshot: Snapshot) -> None:
        documents = documents_of(snapshot)
        parts = [
            positions(snapshot, map(ChunkId, snapshot.catalog.chunk_ids(n))) for n in documents
        ]
        assert (parts, len(snapshot.catalog)) == ([[0, 1], [2], [3, 4]], 5)
        assert [documents.index(snapshot.catalog.document_of(n)) for n in chunks_of(snapshot)] == [
            0,
            0,
            1,
            2,
            2,
        ]
        assert chunks_of(snapshot) == sorted(chunks_of(snapshot))

    def test_chunk_has_its_text_section_and_place(self, snapshot: Snapshot) -> None:
        catalog, every = snapshot.catalog, chunks_of(snapshot)
        assert catalog.chunks(every[4:])[every[4]].text == "Water it for 30 days."
        assert (
            catalog.sections(every[1:2])[every[1]].text
            == "## Code\n\nCall `parse_json` for plants."
        )
        assert catalog.chunks(every[1:2])[every[1]].heading_path == ("Index", "Code")
        assert list(chunk_places([every[4], every[0]], catalog)) == [
            Place("", "notes/trees.md", 5, 5),
            Place("", "index.md", 3, 3),
        ]

    def test_document_is_found_by_its_path(self, snapshot: Snapshot) -> None:
        trees = documents_of(snapshot)[2]
        assert [
            snapshot.catalog.document_at(path) for path in ("notes/trees.md", "notes/none.md")
        ] == [
            trees,
            None,
        ]
        assert snapshot.catalog.documents[trees].tags == ("garden/wood",)

    @pytest.mark.parametrize(
        ("filters", "allowed"),
        [
            (Filters(path=("notes/*.md",)), [3, 4]),
            (Filters(path=("notes",)), [2, 3, 4]),
            (Filters(path=("*.md",)), [0, 1, 2, 3, 4]),
            (Filters(path=("**/moss.md", "index.md")), [0, 1, 2]),
            (Filters(tag=("garden",)), [2, 3, 4]),
            (Filters(tag=("#Garden/Wood",)), [3, 4]),
            (Filters(since=date(2026, 1, 1)), [3, 4]),
            (Filters(until=date(2025, 12, 31)), [2]),
            (Filters(folder=("elsewhere",)), []),
            (Filters.of(where=["rating>=4", "-status:done"]), [3, 4]),
            (Filters(path=("**/moss.md", "index.md"), without=("index.md",)), [2]),
        ],
    )
    def test_filters_select_chunks(
        self, snapshot: Snapshot, filters: Filters, allowed: list[int]
    ) -> None:
        selection = snapshot.catalog.select(filters)
        assert selection is not None
        assert selected(snapshot, selection) == allowed

    def test_empty_filters_select_everything(self, snapshot: Snapshot) -> None:
        assert snapshot.catalog.select(Filters()) is None

    @pytest.mark.parametrize(
        ("condition", "chunks"),
        [
            (TypedFilter("tag", "Garden"), [2, 3, 4]),
            (TypedFilter("tag", "garden/wood"), [3, 4]),
            (TypedFilter("tag", "wood"), []),
            (TypedFilter("path", "notes/s"), [2]),
            (TypedFilter("path", "./NOTES"), [2, 3, 4]),
            (TypedFilter("file", "tre"), [3, 4]),
            (TypedFilter("file", "notes"), []),
            (TypedFilter("title", "overview"), [0, 1]),
            (TypedFilter.of("status:done"), [2]),
            (TypedFilter.of("due<2027"), [3, 4]),
            (TypedFilter.of("rating>5"), [2]),
            (TypedFilter.of("has:rating"), [2, 3, 4]),
        ],
    )
    def test_condition_selects_chunks_of_matching_notes(
        self, snapshot: Snapshot, condition: TypedFilter, chunks: list[int]
    ) -> None:
        assert selected(snapshot, snapshot.catalog.chunks_matching(condition)) == chunks
        assert snapshot.catalog.has_match(condition) is bool(chunks)

    def test_similar_values_are_suggested(self, snapshot: Snapshot) -> None:
        catalog = snapshot.catalog
        assert (
            catalog.similar_values(TypedFilter("tag", "gardn")),
            catalog.similar_values(TypedFilter("path", "note/tree")),
            catalog.similar_values(TypedFilter("title", "tre")),
            catalog.similar_values(TypedFilter.of("status:doin")),
            catalog.similar_values(TypedFilter.of("ratings>=4")),
        ) == (
            ("garden", "garden/wood"),
            ("notes/trees.md",),
            (),
            ("status:doing", "status:Done"),
            ("has:rating",),
        )

    def test_notes_are_found_by_the_letters_of_their_names(self, snapshot: Snapshot) -> None:
        index, moss, _ = documents_of(snapshot)
        assert [
            list(snapshot.catalog.documents_named(letters))
            for letters in ("overview", "moss", "mo")
        ] == [[index], [moss], []]

    def test_dates_of_notes_are_known(self, snapshot: Snapshot) -> None:
        catalog = snapshot.catalog
        assert [
            date.fromordinal(day).isoformat() if day else ""
            for day in catalog.ordinal_days.tolist()
        ] == ["", "2025-01-01", "2026-03-01"]
        assert (catalog.undated(None), catalog.undated(only(snapshot, 2, 3))) == (1, 0)

    def test_newest_notes_come_first_and_undated_ones_last(self, snapshot: Snapshot) -> None:
        results = [
            snapshot.catalog.newest(within, 2)
            for within in (None, only(snapshot, 1, 2, 4), only(snapshot))
        ]
        assert [(positions(snapshot, chunks), count) for chunks, count in results] == [
            ([3, 2], 3),
            ([4, 2], 3),
            ([], 0),
        ]

    def test_abbreviations_are_found_by_either_form_with_document_counts(self, make: Make) -> None:
        sso, k8s = Abbreviation("sso", "single sign on"), Abbreviation("k8s", "kubernetes")
        notes = [
            document(f"{n}.md", "x", abbreviations=defined)
            for n, defined in enumerate([(sso,), (sso, k8s)])
        ]
        catalog = make(notes).catalog
        assert [
            dict(catalog.abbreviations_with({form}))
            for form in ("sso", "single sign on", "kubernete", "on")
        ] == [{sso: 2}, {sso: 2}, {k8s: 1}, {}]

    def test_documents_are_counted_by_language(self, make: Make) -> None:
        notes = [
            document(f"{n}.md", "x", language=language)
            for n, language in enumerate(("de", "", "de"))
        ]
        assert make(notes).catalog.languages == {"de": 2, "": 1}


class TestSelection:
    def test_selections_combine_like_sets(self, snapshot: Snapshot) -> None:
        first, second = (
            only(snapshot, 0, 2, 3),
            snapshot.keyword.chunks_with_all_words("spring", tuple(BODY.fields)),
        )
        assert [
            selected(snapshot, selection)
            for selection in (
                second,
                first & second,
                first | second,
                first - second,
                second - first,
            )
        ] == [[2, 3], [2, 3], [0, 2, 3], [0], []]
        everything = snapshot.catalog.everything()
        assert [
            selected(snapshot, selection)
            for selection in (everything - first, (everything - first) & second, everything & first)
        ] == [[1, 4], [], [0, 2, 3]]

    def test_selection_has_length_membership_and_documents(self, snapshot: Snapshot) -> None:
        selection, every = only(snapshot, 1, 3), chunks_of(snapshot)
        assert (len(selection), bool(selection), bool(only(snapshot))) == (2, True, False)
        assert (
            selection.among([every[3], every[0]]).tolist(),
            positions(snapshot, selection.first(1)),
        ) == ([True, False], [1])
        assert selected(snapshot, selection.of_documents()) == [0, 1, 3, 4]
        assert selected(snapshot, snapshot.catalog.everything().of_documents()) == [0, 1, 2, 3, 4]

    def test_every_nth_chunk_is_returned_in_order(self, snapshot: Snapshot) -> None:
        catalog = snapshot.catalog
        samples = [
            catalog.every_nth(2, None),
            catalog.every_nth(2, None, 1),
            catalog.every_nth(2, only(snapshot, 0, 1, 4)),
            catalog.every_nth(3, only(snapshot), 2),
        ]
        assert [positions(snapshot, chunks) for chunks in samples] == [
            [0, 2, 4],
            [1, 3],
            [0, 4],
            [],
        ]
