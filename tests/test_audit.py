"""`make audit` tells what is vulnerable from what could not be looked up, and licenses that may not
be used from those that may.
"""

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


def test_a_known_vulnerability_is_a_failure_beside_what_could_not_be_looked_up():
    found, passed_over = judge_vulnerabilities(REPORT)
    text, status = say(found, passed_over, 3)
    assert (found, passed_over, status) == (["a 1.0: CVE-1, fixed in 2.0"], ["c"], FOUND)
    assert "the service does not know 1 of 3 packages: c" in text


@pytest.mark.parametrize("passed_over", [None, ["a", "b"]])
def test_a_service_that_was_not_reached_is_said_and_is_no_pass(passed_over):
    text, status = say([], passed_over, 2)
    assert text.startswith("NOT LOOKED UP: cannot reach the vulnerability service")
    assert status == UNFINISHED


def test_where_all_was_looked_up_and_nothing_found_it_passes():
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
def test_a_license_is_allowed_where_all_of_it_is_or_one_that_may_be_chosen(license_):
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
def test_another_license_is_named_with_its_package(license_):
    assert judge_licenses([{"Name": "x", "Version": "1", "License": license_}]) == [
        f"x 1: license {license_!r} is not allowed"
    ]


def test_a_build_of_ones_own_is_looked_up_by_the_version_that_it_is_a_build_of():
    assert pinned("torch==2.13.0+cpu\nx @ file\n") == ["torch==2.13.0"]
