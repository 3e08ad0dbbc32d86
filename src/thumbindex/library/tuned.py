"""What tuning found for a folder: settings and the evidence for them, in a file beside its index, never in the vault."""

from __future__ import annotations

import json
import logging
import os

from thumbindex.config import with_tuned
from thumbindex.errors import ConfigError
from thumbindex.index.failures import writing
from thumbindex.index.replacing import put_in_place
from thumbindex.index.snapshot import Places
from thumbindex.model import Tuned
from thumbindex.settings import Config

_LOG = logging.getLogger(__name__)

_FORMAT = 1


def tuned_config(config: Config, places: Places) -> Config:
    """Return the configuration with what tuning found for the folder at `places`; a damaged file is told of, and changes nothing."""
    if not config.query.tuned:
        return config
    try:
        tuned = read_tuned(places)
        return with_tuned(config, tuned.settings, str(places.tuned)) if tuned else config
    except ConfigError as error:
        _LOG.warning("%s The defaults are used; `thumbindex tune` writes it anew, `thumbindex tune --undo` deletes it.", error)
        return config


def read_tuned(places: Places) -> Tuned | None:
    """Return what was found for a folder, None where it was never tuned; raise ConfigError where the file cannot be read."""
    try:
        found = json.loads(places.tuned.read_bytes())
        tuned = Tuned(dict(found["settings"]), str(found["reason"]), str(found["made"]), str(found["model"]), dict(found["evidence"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{places.tuned}: what was tuned cannot be read ({type(error).__name__}).") from error
    if found.get("format") != _FORMAT:
        raise ConfigError(f"{places.tuned}: what was tuned is of another version.")
    return tuned


def write_tuned(places: Places, tuned: Tuned) -> None:
    """Keep what was found, in place of what was found before: whole or not at all."""
    found = {"format": _FORMAT, "made": tuned.made, "model": tuned.model, "reason": tuned.reason}
    text = json.dumps({**found, "settings": tuned.settings, "evidence": tuned.evidence}, ensure_ascii=False, indent=1)
    new = places.tuned.with_name(f"{places.tuned.name}.{os.getpid()}")
    with writing(places.folder):
        new.write_text(f"{text}\n", encoding="utf-8")
        put_in_place(new, places.tuned)


def undo_tuned(places: Places) -> bool:
    """Delete what was found; tell whether there was anything."""
    there = places.tuned.exists()
    with writing(places.folder):
        places.tuned.unlink(missing_ok=True)
    return there
