"""Provenance of a text: the creation day, status and owner of the documents that contain it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain

from thumbindex.model import Document, created_on, day_of, iso_day

_DRAFTS = frozenset("draft wip unfinished stub todo outdated deprecated obsolete rejected".split())
_REVIEWED = frozenset({"review", "in review", "proposed", "pending", "unapproved"})
_APPROVED = frozenset("approved final published done accepted released stable active".split())


@dataclass(frozen=True, slots=True)
class Provenance:
    """The provenance of a text in one or more documents."""

    created: str  # ISO day; empty if unknown
    status: str
    owner: str


def shared_provenance(documents: Sequence[Document]) -> Provenance:
    """Return the earliest creation day, the most conservative status, and an owner.

    The owner is that of the most recently updated document with an owner.
    """
    statuses = [document.status for document in documents if document.status]
    owned = [document for document in documents if owner_of(document)]
    owner = ""
    if owned:
        owner = owner_of(max(owned, key=lambda each: (day_of(each) or date.min, each.edited)))
    return Provenance(
        created=iso_day(min(filter(None, map(created_on, documents)), default=None)),
        status=min(statuses, key=_approval_level, default=""),
        owner=owner,
    )


def _approval_level(status: str) -> int:
    """Return the rank of a status, in the order draft, review, any other status, approved."""
    levels = (_DRAFTS, _REVIEWED, {status} - _APPROVED, _APPROVED)
    return next(n for n, names in enumerate(levels) if status in names)


def owner_of(document: Document) -> str:
    """Return the property `owner` (or its `name`), or else the author."""
    owners = (document.properties.get(key, ()) for key in ("owner", "owner.name"))
    return ", ".join(chain.from_iterable(owners)) or document.author
