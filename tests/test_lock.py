"""`requirements.txt` locks every package of the base install at its tested version, by hash."""

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
"""Requirement and hashes by package name."""


def required_packages() -> set[str]:
    """Return the base install's packages on this system, from installed packages' metadata."""
    pending = [
        Requirement(requirement)
        for requirement in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
            "project"
        ]["dependencies"]
    ]
    reached: set[tuple[str, str]] = set()
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras} - {
            extra for reached_name, extra in reached if reached_name == name
        }:
            reached.add((name, extra))
            try:
                needs = map(Requirement, requires(name) or ())
            except PackageNotFoundError:  # the test of the lock reports it
                continue
            pending += [
                need
                for need in needs
                if need.marker is None or need.marker.evaluate({"extra": extra})
            ]
    return {name for name, _ in reached}


def test_lock_has_exactly_the_packages_of_the_base_install():
    assert {
        name
        for name, (requirement, _) in LOCKED.items()
        if requirement.marker is None or requirement.marker.evaluate()
    } == required_packages()


def test_locked_versions_are_the_tested_versions():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {
        canonicalize_name(requirement.name): requirement.specifier
        for requirement in map(Requirement, lines[1:])
    }
    assert {name: str(requirement.specifier) for name, (requirement, _) in LOCKED.items()} == {
        name: str(pins.get(name)) for name in LOCKED
    }


def test_locked_packages_have_hashes_and_no_host():
    digest = re.compile(r"sha256:[0-9a-f]{64}")
    assert [
        name for name, (_, hashes) in LOCKED.items() if not all(map(digest.fullmatch, hashes))
    ] == []
    assert len(LOCKED) == len(re.findall(r"^[^\s#]", TEXT, re.M))
    assert "://" not in TEXT
