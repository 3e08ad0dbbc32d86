"""The generated files are current: they name every command, setting, tool and public name."""

import pytest

from reference import PAGES, ROOT


@pytest.mark.parametrize("path", PAGES)
def test_generated_file_is_current(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == PAGES[path](), "run `make docs`"
