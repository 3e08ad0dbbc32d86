"""`thumbindex eval --from-links`."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from notes import write
from schemas import checked


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    root = tmp_path / "vault"
    for n in range(16):
        write(
            root / f"{n}.md",
            f"---\ndescription: what anybody would tell of number {n} here\n---\n# Page {n}\n\n"
            f"Thing {n} [[{(n + 1) % 16}|kin of {n}]].\n",
        )
    return root


@pytest.mark.slow
def test_vault_is_evaluated_with_its_own_links(vault: Path, run_in: Callable[..., Result]) -> None:
    report = checked(run_in(vault, "eval", "--from-links", "--json"), "eval")
    assert set(report["scores"]) == {"ALL", "link", "description"}
    assert report["queries"] == 32
