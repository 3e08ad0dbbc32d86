"""Open a browser at an address that nobody else on this machine may see."""

from __future__ import annotations

import html
import os
import tempfile
import threading
import time
import webbrowser
from contextlib import suppress
from pathlib import Path

from platformdirs import user_state_path

from thumbindex.present.failures import print_error

_READ_SECONDS = 60.0
"""Age after which a start deletes files that a killed page left: their browser has read them by
then.
"""


def open_unseen(address: str, shown: list[Path]) -> None:
    """Open a file of the user's own that leads to the address, and add it to `shown`.

    A command line can be read by every user of the machine; the file by its owner alone.
    """
    folder = user_state_path("thumbindex", appauthor=False) / "page"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        _sweep(folder)
        handle, name = tempfile.mkstemp(dir=folder, suffix=".html")  # rights: 0600
        shown.append(Path(name))
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(_leading_to(address))
    except OSError as error:
        print_error(
            f"No browser is opened ({folder}: {error.strerror}): open the address yourself."
        )
        return
    threading.Thread(target=webbrowser.open, args=(shown[-1].as_uri(),), daemon=True).start()


def remove(shown: list[Path]) -> None:
    """Delete the files that were shown."""
    while shown:
        with suppress(OSError):
            shown.pop().unlink()


def _sweep(folder: Path) -> None:
    for path in folder.glob("*.html"):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - _READ_SECONDS:
                path.unlink()


def _leading_to(address: str) -> str:
    there = html.escape(address)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>thumbindex</title>'
        f'<meta http-equiv="refresh" content="0; url={there}">'
        f'<p><a href="{there}">Open the page</a></p></html>\n'
    )
