"""Check what is installed for licenses that are not allowed and for known vulnerabilities, and say
what could not be looked up.

`make audit` runs it.

Ends with 0 where all was looked up and nothing found, with 1 where something was found, with 3
where nothing was found and not all looked up.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ALLOWED = re.compile(
    r"\b(MIT|BSD|BSL-1|Apache|ISC|ISCL|PSF|Python Software Foundation|CNRI-Python|Academic Free"
    r"|HPND|Historical Permission Notice|Unlicense|Zlib|0BSD|CC0|Public Domain"
    r"|MPL[- ]?2|Mozilla Public License 2|LGPL(v\d)?|GNU (Library or )?Lesser General Public)"
    r"(?![a-z])",
    re.I,
)
"""What a program under MIT may need. Weak copyleft is of libraries that are not changed."""

REFUSED = re.compile(
    r"\b(A?GPL|GNU (Affero )?General Public|Commons[- ]Clause|Proprietary|non-)", re.I
)
"""What is not allowed beside any of those."""

STATED = {"axe-playwright-python": "MIT"}
"""What packages say in a file of theirs and not in their metadata."""

FOUND, UNFINISHED = 1, 3

PASSED_OVER = "NOT LOOKED UP"


def is_allowed(license_: str) -> bool:
    """Tell whether each license that must be kept is allowed: of those that may be chosen from
    (`OR`), one is enough.
    """
    title = license_.strip().partition("\n")[0]  # some state the whole text
    return all(
        any(
            ALLOWED.search(one) and not REFUSED.search(one)
            for one in re.split(r" OR ", part, flags=re.I)
        )
        for part in re.split(r" AND |; ", title, flags=re.I)
    )


def judge_licenses(packages: Iterable[Mapping[str, str]]) -> list[str]:
    """Return a sentence for each package whose license is unknown or not allowed."""
    return [
        f"{package['Name']} {package['Version']}: license {package['License']!r} is not allowed"
        for package in packages
        if not is_allowed(STATED.get(package["Name"], package["License"]))
    ]


def judge_vulnerabilities(report: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return of pip-audit's report a sentence for each vulnerability, and the packages that could
    not be looked up.
    """
    packages = report["dependencies"]
    found = [
        (
            f"{package['name']} {package['version']}: {hole['id']}, mended in "
            f"{', '.join(hole['fix_versions']) or 'no version yet'}"
        )
        for package in packages
        for hole in package.get("vulns", ())
    ]
    return found, [package["name"] for package in packages if "skip_reason" in package]


def say(found: Sequence[str], passed_over: Sequence[str] | None, count: int) -> tuple[str, int]:
    """Return what to print and the exit status.

    No list of what was passed over means that the service was not reached at all.
    """
    lines = list(found)
    if passed_over is None or len(passed_over) == count > 0:
        lines.append(
            f"{PASSED_OVER}: the service that knows vulnerabilities could not be reached, so "
            f"whether one of {count} packages has any is not known."
        )
    elif passed_over:
        lines.append(
            f"{PASSED_OVER}: of {count} packages the service does not know "
            f"{', '.join(sorted(passed_over))}."
        )
    if found:
        return "\n".join(lines), FOUND
    if lines:
        return "\n".join([*lines, "Licenses were looked at: all are allowed."]), UNFINISHED
    return f"No known vulnerability in {count} packages, and all their licenses are allowed.", 0


def pinned(frozen: str) -> list[str]:
    """Return what `pip freeze` lists; a build of one's own (torch's `+cpu`) counts as the version
    that it is a build of.
    """
    return [re.sub(r"\+.*", "", line) for line in frozen.splitlines() if "==" in line]


def main(place: Path) -> int:
    """Look at the environment of this Python, keeping the lists under a folder."""
    place.mkdir(exist_ok=True)
    programs = Path(sys.executable).parent
    listed = subprocess.run(
        [programs / "pip-licenses", "--order=license", "--format=json"],
        check=True,
        capture_output=True,
        encoding="utf-8",
    ).stdout
    licenses = json.loads(listed)
    print("\n".join(f"{each['License']}: {each['Name']} {each['Version']}" for each in licenses))
    frozen = subprocess.run(
        [sys.executable, "-m", "pip", "freeze", "--exclude-editable"],
        check=True,
        capture_output=True,
        encoding="utf-8",
    ).stdout
    packages = pinned(frozen)
    (place / "installed.txt").write_text("\n".join(packages) + "\n", encoding="utf-8")
    options = (
        "--progress-spinner=off",
        "--format=json",
        "--no-deps",
        "--disable-pip",
        "--requirement",
        str(place / "installed.txt"),
    )
    asked = subprocess.run(
        [programs / "pip-audit", *options], check=False, capture_output=True, encoding="utf-8"
    )
    found, passed_over = (
        judge_vulnerabilities(json.loads(asked.stdout))
        if asked.stdout.startswith("{")
        else ([], None)
    )
    if passed_over is None:
        print(asked.stderr[-500:], file=sys.stderr)
    text, status = say([*judge_licenses(licenses), *found], passed_over, len(packages))
    print(text)
    return status


if __name__ == "__main__":
    sys.exit(main(Path("build")))
