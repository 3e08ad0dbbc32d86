"""What the program prints as JSON is what `docs/schema` promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
from click.testing import Result

SCHEMAS = Path(__file__).parents[1] / "docs" / "schema"


def check(payload: Any, name: str) -> Any:
    """Return a payload that fits the schema of a name."""
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.validate(payload, schema)
    return payload


def checked(result: Result, name: str) -> Any:
    """Return the JSON that a command printed, which fits the schema of a name."""
    return check(json.loads(result.stdout), name)
