"""`make audit` reports vulnerable packages, unknown packages, and licenses that are not allowed."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

from audit import FOUND, UNFINISHED, is_allowed, judge_licenses, judge_vulnerabilities, pinned, say

HOLE = {"id": "CVE-1", "fix_versions": ["2.0"]}
REPORT = {
    "dependencies": [
        {"name": "a", "version": "1.0", "vulns": [HOLE]},
        {"name": "b", "version": "1.0", "vulns": []},
        {"name": "c", "skip_reason": "not found"},
    ]
}


def test_known_vulnerability_fails_and_unknown_packages_are_listed():
    vulnerable, unknown = judge_vulnerabilities(REPORT)
    text, status = say(vulnerable, unknown, 3)
    assert (vulnerable, unknown, status) == (["a 1.0: CVE-1, fixed in 2.0"], ["c"], FOUND)
    assert "the service does not know 1 of 3 packages: c" in text


@pytest.mark.parametrize("unknown", [None, ["a", "b"]])
def test_unreachable_service_is_not_a_pass(unknown):
    text, status = say([], unknown, 2)
    assert text.startswith("NOT LOOKED UP: cannot reach the vulnerability service")
    assert status == UNFINISHED


def test_audit_without_findings_passes():
    assert say([], [], 2) == (
        "No known vulnerability in 2 packages, and all their licenses are allowed.",
        0,
    )


@pytest.mark.parametrize(
    "license_",
    [
        "MIT",
        "GPL-2.0 OR Apache-2.0",
        "MPL-2.0; MIT",
        "MIT AND BSL-1.0",
        "MIT License\n\nNo warranty",
    ],
)
def test_license_is_allowed_if_all_parts_or_one_alternative_are(license_):
    assert is_allowed(license_)


@pytest.mark.parametrize(
    "license_",
    [
        "GPL-3.0-only",
        "MIT AND GPL-3.0",
        "UNKNOWN",
        "Proprietary, limited",
        "Apache-2.0 WITH Commons-Clause",
        "",
    ],
)
def test_disallowed_license_is_reported_with_its_package(license_):
    assert judge_licenses([{"Name": "x", "Version": "1", "License": license_}]) == [
        f"x 1: license {license_!r} is not allowed"
    ]


def test_local_build_is_looked_up_by_its_public_version():
    assert pinned("torch==2.13.0+cpu\nx @ file\n") == ["torch==2.13.0"]
