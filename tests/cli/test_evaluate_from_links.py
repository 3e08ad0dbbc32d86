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


def test_vault_is_evaluated_with_its_own_links(
    vault: Path, tmp_path: Path, run_in: Callable[..., Result]
) -> None:
    queries = tmp_path / "q.jsonl"
    result = run_in(vault, "eval", "--from-links", "--write-queries", str(queries), "--json")
    assert set(checked(result, "eval")["scores"]) == {"ALL", "link", "description"}
    assert len(queries.read_text(encoding="utf-8").splitlines()) == 32
    assert checked(run_in(vault, "eval", str(queries), "--json"), "eval")["queries"] == 32
