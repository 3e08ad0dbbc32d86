"""What is said of a text that stands in several places: since when it is there, how far it is approved, and whose it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from thumbindex.model import Document, day_modified, day_of

_LEVELS = {
    0: frozenset("draft wip unfinished stub idea todo outdated deprecated obsolete rejected".split()),
    1: frozenset({"review", "in review", "in-review", "reviewing", "proposed", "proposal", "pending", "unapproved", "not approved"}),
    3: frozenset("approved final published done accepted released stable active current".split()),
}
_UNKNOWN = 2
"""A status in words of one's own is less than approved, and no draft."""

_YES = frozenset({"true", "yes", "on", "1"})


@dataclass(frozen=True, slots=True)
class Facts:
    """What several documents say together of what they share."""

    created: str  # ISO day
    status: str
    owner: str


def facts(documents: Sequence[Document]) -> Facts:
    """Return the earliest day of creation, the most conservative status, and the owner who was active last."""
    statuses = [status for each in documents if (status := status_of(each))]
    owned = [each for each in documents if owner_of(each)]
    return Facts(
        created=min(map(created_on, documents)).isoformat(),
        status=min(statuses, key=level, default=""),
        owner=owner_of(max(owned, key=lambda each: (day_of(each), each.modified))) if owned else "",
    )


def created_on(document: Document) -> date:
    """Return the day of front matter's `created` or `date`, else the one on which the file was last modified."""
    for name in ("created", "date"):
        written = str(_field(document, name) or "").strip().replace("/", "-")[:10]
        try:
            return date.fromisoformat(written)
        except ValueError:
            continue
    return day_modified(document)


def status_of(document: Document) -> str:
    """Return how far a document is approved, by front matter's `status`, `approved` and `draft`; the most conservative, empty where none says."""
    said = [_word(_field(document, "status"))]
    approved, draft = _field(document, "approved"), _field(document, "draft")
    if approved is not None:
        said.append("approved" if _word(approved) not in {"false", "no", "off", "0", ""} else "review")
    if draft is not None and _word(draft) in _YES:
        said.append("draft")
    return min(filter(None, said), key=level, default="")


def level(status: str) -> int:
    """Return how much a status promises: a draft least, then a review, what is approved most."""
    return next((level for level, names in _LEVELS.items() if status.casefold() in names), _UNKNOWN)


def owner_of(document: Document) -> str:
    """Return front matter's `owner`, else its author."""
    owner = _field(document, "owner")
    names = owner if isinstance(owner, list) else [owner]
    return ", ".join(" ".join(str(each.get("name", "") if isinstance(each, Mapping) else each).split()) for each in names if each) or document.author


def _field(document: Document, name: str) -> Any:
    return next((value for key, value in document.front_matter.items() if key.lower() == name), None)


def _word(value: Any) -> str:
    return " ".join(str(value).lower().split()) if isinstance(value, (str, int, bool)) else ""
