"""The names and signatures of `Library` that users of Python see."""

import inspect
import re
from pathlib import Path

from thumbindex.library import Library
from thumbindex.library.library import PUBLIC_NAMES

ROOT = Path(__file__).parents[1]


def test_dir_shows_public_names_and_each_has_a_docstring() -> None:
    with Library.open([ROOT / "examples" / "notes"]) as library:
        assert dir(library) == sorted(PUBLIC_NAMES)
    assert [name for name in PUBLIC_NAMES if not inspect.getdoc(getattr(Library, name))] == []


def test_signatures_show_no_function_objects() -> None:
    methods = [getattr(Library, name) for name in PUBLIC_NAMES if name != "folders"]
    assert [method for method in methods if "<" in str(inspect.signature(method))] == []


def test_python_in_the_docs_uses_public_names() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    code = "\n".join(
        block
        for page in pages
        for block in re.findall(r"(?ms)^```python\n(.*?)^```", page.read_text(encoding="utf-8"))
    )
    used = set(re.findall(r"\b[lL]ibrary\.(\w+)", code))
    assert {"open", "query"} <= used <= set(PUBLIC_NAMES)
