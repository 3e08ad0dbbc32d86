"""`requirements.txt` locks the base install: each package that it needs, on each system, at the
version that is tested, by hashes.
"""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "requirements.txt").read_text(encoding="utf-8")
ENTRY = re.compile(r"^(\w[^\\\n]+) \\\n((?:    --hash=.*\n)+)", re.M)
LOCKED = {
    canonicalize_name(Requirement(line).name): (
        Requirement(line),
        re.findall(r"--hash=(\S+)", hashes),
    )
    for line, hashes in ENTRY.findall(TEXT)
}
"""Each entry and its hashes, by the package's name."""


def needed_here() -> set[str]:
    """Return what the base install needs on this system, by what the packages that are installed
    say that they need.
    """
    asked = [
        Requirement(each)
        for each in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
            "dependencies"
        ]
    ]
    reached: set[tuple[str, str]] = set()
    while asked:
        each = asked.pop()
        name = canonicalize_name(each.name)
        for extra in {"", *each.extras} - {extra for known, extra in reached if known == name}:
            reached.add((name, extra))
            try:
                needs = map(Requirement, requires(name) or ())
            except PackageNotFoundError:  # the test of what is locked names it
                continue
            asked += [
                need
                for need in needs
                if need.marker is None or need.marker.evaluate({"extra": extra})
            ]
    return {name for name, _ in reached}


def test_what_the_base_install_needs_here_is_locked_and_nothing_else():
    assert {
        name for name, (each, _) in LOCKED.items() if each.marker is None or each.marker.evaluate()
    } == needed_here()


def test_each_locked_version_is_the_one_that_is_tested():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {canonicalize_name(each.name): each.specifier for each in map(Requirement, lines[1:])}
    assert {name: str(each.specifier) for name, (each, _) in LOCKED.items()} == {
        name: str(pins.get(name)) for name in LOCKED
    }


def test_each_locked_package_is_known_by_hashes_and_by_no_host():
    digest = re.compile(r"sha256:[0-9a-f]{64}")
    assert [
        name for name, (_, hashes) in LOCKED.items() if not all(map(digest.fullmatch, hashes))
    ] == []
    assert len(LOCKED) == len(re.findall(r"^[^\s#]", TEXT, re.M))
    assert "://" not in TEXT
