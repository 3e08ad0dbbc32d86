"""Validation of JSON output against `docs/schema`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
from click.testing import Result

SCHEMAS = Path(__file__).parents[1] / "docs" / "schema"


def check(payload: Any, name: str) -> Any:
    """Validate a payload against the named schema; return it."""
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.validate(payload, schema)
    return payload


def checked(result: Result, name: str) -> Any:
    """Return a command's JSON output, validated against the named schema."""
    return check(json.loads(result.stdout), name)
