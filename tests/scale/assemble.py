"""A program: puts together a folder of many Markdown files, the archives' real notes first, then
variants of them; the same files every time.

python tests/scale/assemble.py DIR [--files 50000] [--archives ../shared/eval/corpora]
"""

from __future__ import annotations

import argparse
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

# What several folders of tests share lies above.
sys.path.insert(0, str(Path(__file__).parents[1]))

from notes import make_variants, write

ARCHIVES = Path(__file__).parents[3] / "shared" / "eval" / "corpora"

FILES = 50_000

NOTES = (".md", ".markdown", ".mdx")


def read_archives(archives: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield path and text of every note in some archives, each below its archive's name."""
    for archive in archives:
        with tarfile.open(archive) as opened:
            for member in opened:
                data = (
                    opened.extractfile(member)
                    if member.isfile() and member.name.endswith(NOTES)
                    else None
                )
                if data is not None:
                    yield member.name, data.read().decode("utf-8", "replace")


def assemble(target: Path, archives: Sequence[Path], files: int = FILES) -> int:
    """Write so many files; return how many of them are real.

    Nothing is written where the folder holds something.
    """
    if target.is_dir() and any(target.iterdir()):
        raise SystemExit(f"{target} is not empty: name a folder that is not there yet.")
    notes = sorted(read_archives(archives))
    if not notes:
        raise SystemExit(
            "There are no archives to take notes from: name their folder with --archives."
        )
    real = notes[:files]
    for path, text in real:
        write(target / path, text)
    for _, (path, text) in zip(range(files - len(real)), make_variants(notes), strict=False):
        write(target / path, text)
    return len(real)


def main() -> None:
    """Read the options."""
    options = argparse.ArgumentParser(description="Put together a folder of many Markdown files.")
    options.add_argument("target", type=Path)
    options.add_argument("--files", type=int, default=FILES)
    options.add_argument("--archives", type=Path, default=ARCHIVES)
    given = options.parse_args()
    real = assemble(given.target, sorted(given.archives.glob("*.tar.xz")), given.files)
    print(
        f"{given.files:,} files in {given.target}, {real:,} of them real, the others variants "
        "of them"
    )


if __name__ == "__main__":
    main()
