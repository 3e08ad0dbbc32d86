"""Settings of our processes, and the cost of a query in another program."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from notes import make_vault
from thumbindex.process import raise_file_limit

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@pytest.mark.long
def test_query_from_python_uses_only_the_calling_thread(tmp_path: Path) -> None:
    make_vault(tmp_path / "vault", 60, 20_000)
    program = (
        "import time\nfrom thumbindex import Library\nfrom fakes import FakeEmbedder\n"
        f"with Library.open([{str(tmp_path / 'vault')!r}], index={str(tmp_path / 'index')!r}, "
        "embedder=FakeEmbedder(384)) as library:\n"
        "    library.index()\n    library.query('the first question opens the index')\n"
        "    all, own = time.process_time(), time.thread_time()\n"
        "    for n in range(20):\n        library.query(f'notes about subject {n} of that kind')\n"
        "    print(json.dumps([time.process_time() - all, time.thread_time() - own]))"
    )
    environment = {name: value for name, value in os.environ.items() if name not in THREADS}
    environment["PYTHONPATH"] = str(Path(__file__).parent)
    command = [sys.executable, "-c", f"import json\n{program}"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    process_time, thread_time = json.loads(result.stdout)
    assert process_time < 1.2 * thread_time + 0.02


@pytest.mark.slow
def test_query_works_in_a_deleted_current_directory(tmp_path: Path) -> None:
    vault, deleted = tmp_path / "vault", tmp_path / "gone"
    vault.mkdir()
    deleted.mkdir()
    (vault / "a.md").write_text("# A\n\nApples keep.\n", encoding="utf-8")
    query = [sys.executable, "-m", "thumbindex", "query", "apples", "--folder", str(vault)]
    query += ["--index", str(tmp_path / "index"), "--set", "encode.embed.model=none"]
    environment = {**os.environ, "PWD": str(deleted), "XDG_CONFIG_HOME": str(tmp_path)}
    command = ["sh", "-c", 'rmdir ../gone; exec "$@"', "sh", *query]
    result = subprocess.run(
        command, cwd=deleted, env=environment, capture_output=True, text=True, check=False
    )
    assert (result.returncode, "   a.md:3\n" in result.stdout) == (0, True), result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_file_limit_is_raised_but_never_lowered() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
        assert raise_file_limit(600) == resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 600
        assert raise_file_limit(500) == 500
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 600
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
