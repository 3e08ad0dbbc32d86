"""Write down what a user sees of thumbindex, so that two versions of its source can be compared.

    python tests/golden/capture.py OUT [--src DIR] [--small] [--only PART]   then   python
    tests/golden/compare.py OUT OTHER

Parts: answers, duplicates, protocol, commands. `--small` asks a third of the questions on
obsidian-help and a tenth of devdocs, and all on languages. Only the command line and the protocol
are used: no module's name but `thumbindex.__main__` and `from thumbindex import Library`. Corpora
lie in WORK/corpora, indexes in WORK/golden-indexes by a digest of the source (WORK: `--work`, else
where the checkout lies); a new source's indexes are copied from the latest ones and rebuilt by it,
so that texts keep their vectors. `--anew` embeds all.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import functools
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EVAL = ROOT.parent / "shared" / "eval"

CORPORA = {
    "obsidian-help": "obsidian-help",
    "devdocs": "devdocs",
    "tldr-en": "tldr-en",
    "tenth": "devdocs",
    "languages": "languages",
}
"""Name of each corpus, and of the archive and the query sets that it is made of."""
FULL, SMALL = (
    ("languages", "obsidian-help", "devdocs", "tldr-en"),
    ("languages", "tenth", "obsidian-help"),
)

DROPPED = {"seconds", "generation", "size_bytes", "updated", "pid"}
"""Keys whose values are of one run or one machine."""

DAY = 1_767_225_600  # 2026-01-01: files of a checkout have the time of the checkout


class Product:
    """The program of one source tree, in an environment without anybody's own settings."""

    def __init__(self, src: Path, scratch: Path) -> None:
        self.src, self.scratch = src, scratch
        own = {
            name: str(scratch / name)
            for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
        }
        kept = {
            "PYTHONPATH": str(src),
            "HF_HUB_OFFLINE": "1",
            "COLUMNS": "150",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
        }
        self.environment = {**os.environ, **own, **kept}
        self.model = [
            "--set=encode.embed.model=all-MiniLM-L6-v2",
            f"--set=encode.embed.cache={ROOT / '.cache' / 'models'}",
        ]
        place = self.run("-c", "import thumbindex; print(thumbindex.__file__)").stdout.strip()
        assert Path(place).is_relative_to(src), f"{place} is not of {src}"

    def run(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        shown = {
            "env": self.environment,
            "cwd": self.scratch,
            "capture_output": True,
            "text": True,
            **options,
        }
        return subprocess.run([sys.executable, "-P", *arguments], **shown)

    def started(self, command: Sequence[str], **pipes: Any) -> subprocess.Popen[str]:
        """Start a server; one that is left by an error ends with this program."""
        process = subprocess.Popen(
            command, env=self.environment, cwd=self.scratch, text=True, **pipes
        )
        atexit.register(process.kill)
        return process

    def command(self, *arguments: str, **options: Any) -> dict[str, Any]:
        """Run a command of the program; return its exit code and what it printed, as JSON where it
        is that.
        """
        done = self.run("-m", "thumbindex", *arguments, **options)
        return self.cleaned(
            {"exit": done.returncode, "out": parsed(done.stdout), "err": done.stderr.splitlines()}
        )

    def commands(
        self, asked: Sequence[Sequence[str]], *, keep: bool = False
    ) -> Iterator[dict[str, Any]]:
        """Run many commands in one process; with `keep`, the library that some of them open stays
        open for the others.
        """
        lines = "".join(json.dumps(each) + "\n" for each in asked)
        done = self.run(__file__, "--child", *(["--keep"] if keep else []), input=lines)
        assert done.returncode == 0, done.stderr
        return (self.cleaned(json.loads(line)) for line in done.stdout.splitlines())

    def cleaned(self, value: Any) -> Any:
        """Return a value without what is of one run or one machine."""
        if isinstance(value, Mapping):
            return {
                self.cleaned(name): self.cleaned(each)
                for name, each in value.items()
                if name not in DROPPED
            }
        if isinstance(value, (list, tuple)):
            return [self.cleaned(each) for each in value]
        if not isinstance(value, str):
            return value
        for path, name in (
            (self.scratch, "<scratch>"),
            (self.src, "<src>"),
            (ROOT, "<root>"),
            (ROOT.parent, "<work>"),
        ):
            value = value.replace(str(path), name)
        value = re.sub(r"(127\.0\.0\.1|localhost):\d+", "<address>", value)
        value = re.sub(r"\b\d+(\.\d+)? (ms|s|MB|KB|B)\b", r"<n> \2", value)
        value = re.sub(r"^(\w+( +\d+){3}) +\d+\.\d$", r"\1 <ms>", value)  # a line of a trace
        return re.sub(r"[-\w]*-[0-9a-f]{12}\b", "<index>", value)


def parsed(text: str) -> Any:
    """Read JSON, or JSON lines; else return the lines."""
    for read in (json.loads, lambda whole: [json.loads(line) for line in whole.splitlines()]):
        with contextlib.suppress(ValueError):
            return read(text)
    return [line.rstrip() for line in text.splitlines()]


# ------------------------------------------------------------------ corpora and indexes


def is_in_tenth(path: str) -> bool:
    """Tell whether a file is in the tenth of devdocs that tests/study/test_frozen.py takes, too."""
    return int(hashlib.sha256(path.encode()).hexdigest(), 16) % 10 == 2


def unpacked(corpus: str, work: Path) -> Path:
    """Return a corpus's folder; unpack it where it is not there yet."""
    name = CORPORA[corpus]
    folder = work / "corpora" / (name if name == corpus else f"{corpus}/{name}")
    if folder.is_dir():
        return folder
    coming = Path(tempfile.mkdtemp(dir=folder.parent if folder.parent.is_dir() else work))
    if corpus == "languages":
        shutil.copytree(
            ROOT / "tests" / "languages", coming / name, ignore=shutil.ignore_patterns("*.jsonl")
        )
        for path in (coming / name).rglob("*"):
            os.utime(path, (DAY, DAY))
    else:
        with tarfile.open(EVAL / "corpora" / f"{name}.tar.xz") as packed:
            wanted = [
                each
                for each in packed
                if corpus != "tenth" or is_in_tenth(each.name.removeprefix("./").partition("/")[2])
            ]
            packed.extractall(coming, [each for each in wanted if each.isfile()], filter="data")
    folder.parent.mkdir(parents=True, exist_ok=True)
    (coming / name).rename(folder)
    coming.rmdir()
    return folder


def digest(src: Path) -> str:
    """Return what tells one source from another."""
    whole = hashlib.sha256()
    for path in sorted((src / "thumbindex").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            whole.update(str(path.relative_to(src)).encode() + b"\0" + path.read_bytes())
    return whole.hexdigest()[:12]


def indexed(product: Product, corpus: str, work: Path, anew: bool) -> list[str]:
    """Return the options that open a corpus and its index, which this very source has made."""
    own = work / "golden-indexes" / digest(product.src) / corpus
    options = ["--folder", str(unpacked(corpus, work)), "--index", str(own), *product.model]
    done = own / "golden.done"
    if anew or not done.exists():
        others = sorted(
            own.parent.parent.glob(f"*/{corpus}/golden.done"), key=lambda path: path.stat().st_mtime
        )
        shutil.rmtree(own, ignore_errors=True)
        if others and not anew:
            shutil.copytree(others[-1].parent, own)
            done.unlink()
        made = product.run("-m", "thumbindex", "index", "--rebuild", *options)
        assert made.returncode == 0, made.stderr
        done.write_text(made.stdout)
    return options


# ------------------------------------------------------------------ parts


def questions(corpus: str, folder: Path) -> dict[str, str]:
    """Return each question once, with the name of the first query that asks it: rewordings and
    passages of a client, too.
    """
    name, found = CORPORA[corpus], {}
    sets = (
        [ROOT / "tests/languages/queries.jsonl"]
        if name == "languages"
        else sorted((EVAL / "queries" / "dev").glob(f"{name}.*.jsonl"))
    )
    for path in sets:
        for query in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            if corpus == "tenth" and not all(
                (folder / label["path"]).exists() for label in query["relevant"]
            ):
                continue
            for n, text in enumerate(
                [query["query"], *query.get("also", ()), *filter(None, [query.get("passage")])]
            ):
                found.setdefault(text, f"{path.stem}/{query['id']}" + (f"+{n}" if n else ""))
    return {label: text for text, label in found.items()}


def answers(
    product: Product, small: bool, work: Path, anew: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Ask all questions, or every third one, one process a corpus."""
    for corpus in SMALL if small else FULL:
        options = indexed(product, corpus, work, anew)
        asked = dict(
            list(questions(corpus, Path(options[1])).items())[
                :: 3 if small and corpus != "languages" else 1
            ]
        )
        lines = [
            ["query", "--json", "--explain", "--limit=10", *options, "--", text]
            for text in asked.values()
        ]
        for label, text, found in zip(
            asked, asked.values(), product.commands(lines, keep=True), strict=True
        ):
            yield f"{corpus}: {label}", {"query": text, **found}


def run_child(keep: bool) -> None:
    """Run commands, one a line of the input, in this process."""
    # Imported here: this process's path leads to the source that is captured.
    import typer.main

    from thumbindex import Library
    from thumbindex.__main__ import main

    opened, open_it = {}, Library.open

    def open_once(*arguments: Any, **options: Any) -> Library:
        key = repr((arguments, options))
        if key not in opened:
            opened[key] = open_it(*arguments, **options)
        return opened[key]

    # a third of the time otherwise
    typer.main.get_command = functools.cache(typer.main.get_command)
    if keep:
        Library.open, Library.close = staticmethod(open_once), lambda self: None
    for line in sys.stdin:
        sys.argv, code = ["thumbindex", *json.loads(line)], None
        out, err = (
            io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in "12"
        )
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as end:
                code = end.code
        said = [each.buffer.getvalue().decode() for each in (out, err)]
        sys.stdout.write(
            json.dumps({"exit": code, "out": parsed(said[0]), "err": said[1].splitlines()}) + "\n"
        )


def duplicates(product: Product, work: Path, anew: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """List what says the same in obsidian-help, and decide labeled pairs."""
    options = indexed(product, "obsidian-help", work, anew)
    listed = product.command("duplicates", "--grey", "--json", *options)
    yield (
        "obsidian-help",
        {
            **listed,
            "out": {name: each for name, each in listed["out"].items() if name != "clusters"},
        },
    )
    for n, cluster in enumerate(listed["out"].get("clusters", ())):
        yield f"obsidian-help: cluster {n}", cluster
    judged = product.command(
        "duplicates", "judge", str(EVAL / "dups" / "dev" / "pairs.jsonl"), *options
    )
    yield "judge", {**judged, "out": None}
    for each in judged["out"]:
        yield f"judge: {each['id']}", each


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--src", type=Path, default=ROOT / "src")
    parser.add_argument("--work", type=Path, default=ROOT.parent)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--anew", action="store_true")
    parser.add_argument("--only", choices=("answers", "duplicates", "protocol", "commands"))
    given = parser.parse_args()
    # Imported here: the child, which has the source's path alone, does without.
    from protocol import commands, protocol

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        product = Product(given.src.resolve(), Path(scratch))
        parts = {
            "answers": lambda: answers(product, given.small, given.work.resolve(), given.anew),
            "duplicates": lambda: duplicates(product, given.work.resolve(), False),
            "protocol": lambda: protocol(product),
            "commands": lambda: commands(product),
        }
        given.out.mkdir(parents=True, exist_ok=True)
        for part in [given.only] if given.only else parts:
            began = time.monotonic()
            with (given.out / f"{part}.jsonl").open("w", encoding="utf-8") as file:
                count = sum(
                    bool(file.write(json.dumps([label, found], sort_keys=True) + "\n"))
                    for label, found in parts[part]()
                )
            print(f"{part}: {count:,} in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    run_child("--keep" in sys.argv) if sys.argv[1:2] == ["--child"] else main()
