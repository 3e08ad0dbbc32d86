"""Check the installed packages for refused licenses and known vulnerabilities (`make audit`).

Exit codes: 0 if all packages passed, 1 if a problem was found, 3 if no problem was found but some
packages could not be looked up.
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
"""Licenses that dependencies may have; weak copyleft is fine for unmodified libraries."""

REFUSED = re.compile(
    r"\b(A?GPL|GNU (Affero )?General Public|Commons[- ]Clause|Proprietary|non-)", re.I
)
"""Licenses that are refused even in combination with an allowed one."""

STATED = {"axe-playwright-python": "MIT"}
"""Licenses of packages whose metadata does not state one."""

FOUND, UNFINISHED = 1, 3

PASSED_OVER = "NOT LOOKED UP"


def is_allowed(license_: str) -> bool:
    """Return whether a license is allowed.

    Every part of an AND must be allowed, but only one choice of an OR.
    """
    title = license_.strip().partition("\n")[0]  # some packages state the full text
    return all(
        any(
            ALLOWED.search(choice) and not REFUSED.search(choice)
            for choice in re.split(r" OR ", part, flags=re.I)
        )
        for part in re.split(r" AND |; ", title, flags=re.I)
    )


def judge_licenses(packages: Iterable[Mapping[str, str]]) -> list[str]:
    """Return a sentence for each package with an unknown or refused license."""
    return [
        f"{package['Name']} {package['Version']}: license {package['License']!r} is not allowed"
        for package in packages
        if not is_allowed(STATED.get(package["Name"], package["License"]))
    ]


def judge_vulnerabilities(report: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return a sentence for each vulnerability in pip-audit's report, and the skipped packages."""
    packages = report["dependencies"]
    vulnerabilities = [
        (
            f"{package['name']} {package['version']}: {vulnerability['id']}, fixed in "
            f"{', '.join(vulnerability['fix_versions']) or 'no version yet'}"
        )
        for package in packages
        for vulnerability in package.get("vulns", ())
    ]
    return vulnerabilities, [package["name"] for package in packages if "skip_reason" in package]


def say(problems: Sequence[str], passed_over: Sequence[str] | None, count: int) -> tuple[str, int]:
    """Return the text to print and the exit code.

    `passed_over` names the packages that the vulnerability service does not know. It is None if the
    service could not be reached.
    """
    lines = list(problems)
    if passed_over is None or len(passed_over) == count > 0:
        lines.append(
            f"{PASSED_OVER}: cannot reach the vulnerability service, so {count} packages were not "
            "checked."
        )
    elif passed_over:
        lines.append(
            f"{PASSED_OVER}: the service does not know {len(passed_over)} of {count} packages: "
            f"{', '.join(sorted(passed_over))}."
        )
    if problems:
        return "\n".join(lines), FOUND
    if lines:
        return "\n".join([*lines, "All licenses are allowed."]), UNFINISHED
    return f"No known vulnerability in {count} packages, and all their licenses are allowed.", 0


def pinned(frozen: str) -> list[str]:
    """Return the pins in the output of `pip freeze`, without local versions (such as `+cpu`)."""
    return [re.sub(r"\+.*", "", line) for line in frozen.splitlines() if "==" in line]


def main(place: Path) -> int:
    """Audit the packages of this Python environment, and list them in a file in `place`."""
    place.mkdir(exist_ok=True)
    programs = Path(sys.executable).parent
    license_list = subprocess.run(
        [programs / "pip-licenses", "--order=license", "--format=json"],
        check=True,
        capture_output=True,
        encoding="utf-8",
    ).stdout
    licenses = json.loads(license_list)
    print(
        "\n".join(
            f"{package['License']}: {package['Name']} {package['Version']}" for package in licenses
        )
    )
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
    audit = subprocess.run(
        [programs / "pip-audit", *options], check=False, capture_output=True, encoding="utf-8"
    )
    vulnerabilities, passed_over = (
        judge_vulnerabilities(json.loads(audit.stdout))
        if audit.stdout.startswith("{")
        else ([], None)
    )
    if passed_over is None:
        print(audit.stderr[-500:], file=sys.stderr)
    text, status = say([*judge_licenses(licenses), *vulnerabilities], passed_over, len(packages))
    print(text)
    return status


if __name__ == "__main__":
    sys.exit(main(Path("build")))
