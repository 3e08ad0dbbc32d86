"""Made-up notes: the same for the same seed, each about as long as was asked."""

from pathlib import Path

from notes import Author, make_vault, note_path


def test_the_same_seed_writes_the_same_vault_of_notes_about_as_long_as_was_asked(
    tmp_path: Path,
) -> None:
    make_vault(tmp_path, 3, 5000)
    author = Author()
    texts = [note_path(tmp_path, n).read_text(encoding="utf-8") for n in range(3)]
    assert texts == [author.write_note(n, 3, 5000) for n in range(3)]
    assert all(5000 <= len(text) < 6500 and text.count("[[note ") >= 5 for text in texts)
