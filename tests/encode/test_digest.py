import hashlib
import os

from thumbindex.encode.models import LARGE, file_digest

WEIGHTS = b"w" * LARGE


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def test_a_digest_is_the_sha256_of_the_bytes(tmp_path):
    for content in (b"", b"small", WEIGHTS):
        (tmp_path / "weights").write_bytes(content)
        assert file_digest(tmp_path / "weights", tmp_path / "cache") == sha256(content)


def test_a_large_file_of_the_same_size_and_time_is_not_read_again(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(WEIGHTS)
    first = file_digest(path, tmp_path / "cache")
    before = path.stat()
    path.write_bytes(WEIGHTS[::-1].replace(b"w", b"x"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file_digest(path, tmp_path / "cache") == first


def test_a_torn_note_is_not_believed(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(WEIGHTS)
    file_digest(path, tmp_path / "cache")
    for note in (tmp_path / "cache" / "digests").iterdir():
        note.write_bytes(b"\xff\x00")
    assert file_digest(path, tmp_path / "cache") == sha256(WEIGHTS)


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    (tmp_path / "weights").write_bytes(WEIGHTS)
    assert file_digest(tmp_path / "weights", tmp_path / "cache") == sha256(WEIGHTS)
