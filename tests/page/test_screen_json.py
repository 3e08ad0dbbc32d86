"""The JSON of the suggested names and of Health fits its schema in docs/schema/page."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from thumbindex.page.site import SCREENS

SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"

TWINS = {
    "names": ("/names.json", "/names.json?q=can"),
    "checkup": ("/checkup.json", "/checkup.json?show=all", "/checkup.json?show=decided"),
}

LONG = (
    "Copy the whole vault to another disk every evening, keep {} copies of it, and try once a "
    "month whether the oldest can be read at all."
)


@pytest.fixture(scope="module")
def fits() -> Callable[[str, Any], None]:
    """Validate a screen's JSON against its schema."""
    schemas = {
        path.as_uri(): json.loads(path.read_text(encoding="utf-8"))
        for path in SCHEMAS.rglob("*.json")
    }
    registry: Registry[Any] = Registry().with_resources(
        [(uri, Resource.from_contents(schema)) for uri, schema in schemas.items()]
    )

    def check(name: str, payload: Any) -> None:
        Draft202012Validator(
            {"$ref": (SCHEMAS / "page" / f"{name}.json").as_uri()}, registry=registry
        ).validate(payload)

    return check


def test_other_screens_have_no_json(browser):
    assert {path.stem for path in (SCHEMAS / "page").iterdir()} == set(TWINS)
    for screen in SCREENS.keys() - TWINS.keys():
        assert browser.get(f"/{screen}.json?q=sync").status_code == 404


@pytest.mark.parametrize(
    ("name", "address"),
    [(name, address) for name, addresses in TWINS.items() for address in addresses],
)
def test_screen_json_fits_its_schema(browser, fits, name, address):
    fits(name, browser.json(address))


@pytest.fixture
def copies(vault_copy, browse):
    notes = {"a.md": LONG.format(30), "b.md": LONG.format(60), "c.md": LONG.format(30)}
    return browse(vault_copy({path: f"# {path}\n\n{text}\n" for path, text in notes.items()}))


def test_checkup_json_follows_its_parameters(copies, fits):
    every = copies.json("/checkup.json?show=all")
    assert len(every["clusters"]) == every["kinds"]["all"] > 1
    last = every["clusters"][-1]["id"]
    merged = copies.json("/checkup.json?show=merged")
    assert [cluster["zone"] for cluster in merged["clusters"]] == ["same"] * merged["kinds"][
        "merged"
    ]
    copies.post("/checkup/decide", {"id": last, "verdict": "apart"})
    decided = copies.json("/checkup.json?show=decided")
    assert [cluster["id"] for cluster in decided["clusters"]] == [last]
    for cluster in (every, merged, decided):
        fits("checkup", cluster)
