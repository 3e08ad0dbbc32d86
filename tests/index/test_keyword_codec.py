"""What is written is what Whoosh's own queries and ours find: postings, phrases, near words, through merges and deletions."""

from dataclasses import dataclass

import pytest
from whoosh.index import create_in, open_dir
from whoosh.query import And, FuzzyTerm, Or, Phrase, Prefix, Term
from whoosh.reading import SegmentReader, TermNotFound
from whoosh.searching import Searcher

from thumbindex.index.analysis import RowWords, schema
from thumbindex.index.keyword_codec import LeanWriter
from thumbindex.index.segments import Segment


@dataclass
class Written:
    """An index that is written a commit at a time."""

    folder: str

    def __post_init__(self):
        create_in(self.folder, schema())

    def add(self, *texts, megabytes=128, removed=(), merge=False):
        """Add rows of words, remove rows by number, merge all segments or none."""
        writer = LeanWriter(open_dir(self.folder), megabytes, timeout=1.0)
        for number in removed:
            writer.delete_document(number)
        for row, text in enumerate(texts, 1):
            found = text.split()
            writer.add_row(row, RowWords({"body": (found, range(len(found))), "code": (found, ())}, {"body": len(found), "code": len(found)}))
        writer.commit(mergetype=merged if merge else lambda _, segments: segments)
        return self

    def reader(self):
        """Open the last commit."""
        return open_dir(self.folder).reader()

    def asked(self, query):
        """Return the numbers of the documents that match one of Whoosh's queries."""
        with self.reader() as reader:
            return list(query.docs(Searcher(reader)))

    def postings(self):
        """Return each term's documents, frequencies and places, by field."""
        found = {}
        with self.reader() as reader:
            for name, term in reader.all_terms():
                matcher = reader.postings(name, term)
                while matcher.is_active():
                    places = matcher.value_as("positions") if name == "body" else None
                    found.setdefault((name, term.decode()), []).append((matcher.id(), matcher.weight(), places))
                    matcher.next()
        return found


def merged(writer, segments):
    """Merge all segments."""
    for segment in segments:
        with SegmentReader(writer.storage, writer.schema, segment) as reader:
            writer.add_reader(reader)
    return []


@pytest.fixture
def index(tmp_path):
    return Written(str(tmp_path))


def test_postings_hold_documents_frequencies_and_places(index):
    found = index.add("red apple red", "green apple", "é").postings()
    assert found["body", "red"] == [(0, 2.0, [0, 2])]
    assert found["code", "apple"] == [(0, 1.0, None), (1, 1.0, None)]
    assert found["body", "apple"] == [(0, 1.0, [1]), (1, 1.0, [1])]
    assert [term for name, term in found if name == "body"] == ["apple", "green", "red", "é"]


def test_a_phrase_is_found_where_its_words_stand_in_a_row(index):
    index.add("red apple pie", "apple red", "red green apple", "pie red apple")
    assert index.asked(Phrase("body", ["red", "apple"])) == [0, 3]
    assert index.asked(Phrase("body", ["red", "plum"])) == []


def test_whoosh_s_other_queries_are_answered(index):
    index.add("red apple", "red pear", "apples")
    assert index.asked(And([Term("body", "red"), Term("body", "pear")])) == [1]
    assert index.asked(Or([Term("body", "pear"), Term("body", "apples")])) == [1, 2]
    assert index.asked(Prefix("body", "app")) == [0, 2]
    assert index.asked(FuzzyTerm("body", "apqle", maxdist=1)) == [0]


def test_thousands_of_postings_and_one_are_read_by_columns_as_one_by_one(index):
    index.add(*("common " * (1 + n % 3) + ("rare" if n == 4321 else "") for n in range(5000)))
    numbers, counts = Segment(index.reader()).postings("body", "common")
    assert (numbers.tolist(), counts.tolist()) == (list(range(5000)), [float(1 + n % 3) for n in range(5000)])
    assert index.postings()["body", "rare"] == [(4321, 1.0, [4321 % 3 + 1])]
    assert index.asked(Phrase("body", ["common", "rare"])) == [4321]


def test_what_is_merged_reads_as_if_it_had_been_written_at_once(index, tmp_path):
    (tmp_path / "at once").mkdir()
    texts = ["red apple", "green apple green", "plum", "red plum red"]
    index.add(*texts[:2]).add(*texts[2:]).add(merge=True)
    assert index.postings() == Written(str(tmp_path / "at once")).add(*texts).postings()


def test_a_merge_leaves_deleted_rows_and_words_of_theirs_behind(index):
    index.add("red apple", "green plum").add("red pear", removed=[1])
    assert index.asked(Term("body", "plum")) == []
    found = index.add(merge=True).postings()
    assert {term for _, term in found} == {"red", "apple", "pear"}
    assert found["body", "red"] == [(0, 1.0, [0]), (1, 1.0, [0])]


def test_what_memory_has_no_place_for_is_written_all_the_same(index, tmp_path):
    (tmp_path / "in memory").mkdir()
    texts = [f"word{n % 50} again word{n}" for n in range(400)]
    index.add(*texts[:200], megabytes=0).add(*texts[200:], megabytes=0).add(megabytes=0, merge=True)
    assert index.postings() == Written(str(tmp_path / "in memory")).add(*texts).postings()


def test_more_words_than_are_sorted_at_once_are_found_where_they_stand(index):
    index.add(*(" ".join(f"word{n % 997}" for n in range(start, start + 100_000)) for start in range(4)))
    assert index.postings()["body", "word5"][1] == (1, 101.0, list(range(4, 100_000, 997)))
    assert index.asked(Phrase("body", ["word996", "word0"])) == [0, 1, 2, 3]
    before = index.postings()
    assert index.add(merge=True).postings() == before


def test_an_index_without_words_has_no_terms(index):
    index.add("")
    with index.reader() as reader:
        assert list(reader.all_terms()) == []
        assert ("body", b"red") not in reader
        with pytest.raises(TermNotFound):
            reader.postings("body", b"red")


def test_terms_are_told_with_how_many_documents_hold_them(index):
    index.add("red apple", "red pear")
    with index.reader() as reader:
        terms = reader.leaf_readers()[0][0]._terms
        assert list(terms.counted("code")) == [("apple", 1), ("pear", 1), ("red", 2)]
        assert [text for _, text in reader.terms_from("code", b"b")] == [b"pear", b"red"]
        info = reader.term_info("body", "red")
        assert (info.doc_frequency(), info.weight(), info.min_id(), info.max_id()) == (2, 2.0, 0, 1)
