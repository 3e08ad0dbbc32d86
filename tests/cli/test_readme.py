"""The README's commands print the output that it shows; … replaces output of this machine."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from program import app
from thumbindex.library import Library
from thumbindex.opening import OpenOptions
from thumbindex.ports import Embedder

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["query", "verify"])
def test_the_readme_shows_the_output_for_the_example_notes(
    name: str, tmp_path: Path, real_embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)

    def opener(opening: OpenOptions) -> Library:
        return Library.open(
            opening.folder, index=opening.index, config=opening.load(), embedder=real_embedder
        )

    ((arguments, shown),) = re.findall(
        rf"(?ms)^\$ thumbindex {name} (--folder examples/notes [^\n]*)\n(.*?)(?=^\$ |^```)", README
    )
    result = CliRunner().invoke(
        app, [name, "--index", str(tmp_path / "index"), *shlex.split(arguments)], obj=opener
    )
    expected = re.escape(shown.strip()).replace("…", ".*")
    assert re.fullmatch(expected, result.stdout.strip(), re.DOTALL), result.output
