"""What is set in a process of our own, seen from within one; and what a question costs in somebody
else's.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from notes import make_vault
from thumbindex.process import raise_file_limit

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def told_by(program: str) -> Any:
    """Run a program in a process of its own, as a user's shell would; return what it says last."""
    environment = {name: value for name, value in os.environ.items() if name not in THREADS}
    command = [sys.executable, "-c", f"import gc, json, sys\n{program}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def test_a_start_looks_for_no_cycles_and_later_not_among_what_it_has_made() -> None:
    before, during, after, frozen = told_by(
        "from thumbindex.process import collect_as_usual, collect_rarely\n"
        "before = gc.get_threshold()\n"
        "collect_rarely()\nduring = gc.get_threshold()\ncollect_as_usual()\n"
        "print(json.dumps([before, during, gc.get_threshold(), gc.get_freeze_count()]))"
    )
    assert (after == before, during[0] > 100 * before[0], frozen > 1000) == (True, True, True)


def test_who_has_put_off_no_collection_has_nothing_frozen_by_its_end() -> None:
    # a Library in somebody's own program: what lives there is not ours to keep (3.12 has frozen
    # some objects itself)
    program = (
        "before = gc.get_freeze_count()\nfrom thumbindex.process import collect_as_usual\n"
        "collect_as_usual()\n"
    )
    assert told_by(program + "print(gc.get_freeze_count() - before)") == 0


def test_notes_without_links_bring_no_networkx_and_have_no_neighbors() -> None:
    program = (
        "from thumbindex.index.graph import NetworkxLinkGraph\n"
        "alone = NetworkxLinkGraph(['a.md', 'b.md'], {'a.md': '[\"a.md\"]'})\n"
        "without = [alone.linked(0), alone.linking(0), 'networkx' in sys.modules]\n"
        "linked = NetworkxLinkGraph(['a.md', 'b.md'], {'a.md': '[\"b.md\"]'}, alone)\n"
        "print(json.dumps([without, linked.linked(0), linked.linking(1), 'networkx' in "
        "sys.modules]))"
    )
    assert told_by(program) == [[[], [], False], [1], [0], True]


def test_a_question_asked_from_python_makes_no_other_thread_work(tmp_path: Path) -> None:
    make_vault(tmp_path / "vault", 60, 20_000)
    program = (
        "import time\nfrom thumbindex import Library\nfrom thumbindex.testing import FakeEmbedder\n"
        f"with Library.open([{str(tmp_path / 'vault')!r}], index={str(tmp_path / 'index')!r}, "
        "embedder=FakeEmbedder(384)) as library:\n"
        "    library.index()\n    library.query('the first question opens the index')\n"
        "    all, own = time.process_time(), time.thread_time()\n"
        "    for n in range(20):\n        library.query(f'notes about subject {n} of that kind')\n"
        "    print(json.dumps([time.process_time() - all, time.thread_time() - own]))"
    )
    of_all, own = told_by(program)
    assert of_all < 1.2 * own + 0.02


@pytest.mark.parametrize("names_a_folder", [True, False])
def test_in_a_directory_that_was_deleted_a_folder_elsewhere_is_asked_as_ever(
    tmp_path: Path, names_a_folder: bool
) -> None:
    vault, gone = tmp_path / "vault", tmp_path / "gone"
    vault.mkdir()
    gone.mkdir()
    (vault / "a.md").write_text("# A\n\nApples keep.\n", encoding="utf-8")
    folder = ["--folder", str(vault)] if names_a_folder else []
    asked = [
        sys.executable,
        "-m",
        "thumbindex",
        "query",
        "apples",
        *folder,
        "--index",
        str(tmp_path / "index"),
        "--set",
        "encode.embed.model=none",
    ]
    environment = {**os.environ, "PWD": str(gone), "XDG_CONFIG_HOME": str(tmp_path)}
    command = ["sh", "-c", 'rmdir ../gone; exec "$@"', "sh", *asked]
    done = subprocess.run(
        command, cwd=gone, env=environment, capture_output=True, text=True, check=False
    )
    if names_a_folder:
        assert (done.returncode, f"{vault}/a.md:3" in done.stdout) == (0, True), done.stderr
    else:
        assert (done.returncode, done.stderr) == (
            2,
            f"There is no folder {gone}: check the path; no folder is configured by a name.\n",
        )


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
