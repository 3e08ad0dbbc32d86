from pathlib import Path

from thumbindex.encode.embed import open_tokenizer


def test_a_file_s_tokenizer_is_there_once_and_says_what_it_cut_off(tiny_bert: Path) -> None:
    path = tiny_bert / "tokenizer.json"
    found = open_tokenizer(path, 16).encode("vault " * 50, add_special_tokens=False)
    whole = open_tokenizer(path, 1000).encode("vault " * 50, add_special_tokens=False)
    assert open_tokenizer(path, 16) is open_tokenizer(path, 16)
    assert (
        len(found.ids) <= 16,
        found.ids + [n for rest in found.overflowing for n in rest.ids],
    ) == (True, whole.ids)
