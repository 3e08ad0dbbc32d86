"""What is set in a process of our own, seen from within one; and what a question costs in somebody
else's.
"""

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
def test_a_question_asked_from_python_makes_no_other_thread_work(tmp_path: Path) -> None:
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
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    of_all, own = json.loads(done.stdout)
    assert of_all < 1.2 * own + 0.02


def test_in_a_directory_that_was_deleted_a_folder_elsewhere_is_asked_as_ever(
    tmp_path: Path,
) -> None:
    vault, gone = tmp_path / "vault", tmp_path / "gone"
    vault.mkdir()
    gone.mkdir()
    (vault / "a.md").write_text("# A\n\nApples keep.\n", encoding="utf-8")
    asked = [sys.executable, "-m", "thumbindex", "query", "apples", "--folder", str(vault)]
    asked += ["--index", str(tmp_path / "index"), "--set", "encode.embed.model=none"]
    environment = {**os.environ, "PWD": str(gone), "XDG_CONFIG_HOME": str(tmp_path)}
    command = ["sh", "-c", 'rmdir ../gone; exec "$@"', "sh", *asked]
    done = subprocess.run(
        command, cwd=gone, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, f"{vault}/a.md:3" in done.stdout) == (0, True), done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_a_server_may_open_more_files_than_its_shell() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
        assert raise_file_limit(600) == resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 600
        assert raise_file_limit(500) == 500
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 600
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
