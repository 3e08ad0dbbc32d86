"""The pictures in the documentation show the program's current output."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "scripts" / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def steady(drawn: str) -> str:
    """Replace confidence figures, whose last digits depend on the processor."""
    return re.sub(r"0\.\d\d", "0.…", drawn)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="paths are drawn with slashes")
def test_pictures_show_the_current_output(program: ModuleType) -> None:
    drawn = program.pictures()
    assert {path.name for path in FOLDER.iterdir()} == set(drawn)
    for name, picture in drawn.items():
        committed = (FOLDER / name).read_text(encoding="utf-8")
        assert steady(committed) == steady(picture), (
            f"{name} is not what is printed today: `python scripts/pictures.py` draws it again"
        )


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.svg")), ids=lambda path: path.name)
def test_picture_is_small_and_fetches_nothing(path: Path) -> None:
    picture = path.read_text(encoding="utf-8")
    assert len(picture.encode()) < 60_000
    assert not re.search(r"url\((?!#)|@import|@font-face|<script|<image|href=", picture)
