"""Runs this room's slow programs in processes of their own, so that their memory, output and hangs stay out of ours."""

from __future__ import annotations

import subprocess
import sys


def run_child(module: str, *arguments: str, seconds: float | None = None) -> str | None:
    """Run a module as a program, in silence; return None when it went well, else its last complaint."""
    # -P: the current folder is someone's vault, and a `token.py` in it must not be imported
    command = [sys.executable, "-P", "-m", module, *arguments]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return f"it took longer than {seconds:g} seconds"
    except OSError as error:
        return f"{sys.executable} could not be started: {error}"
    if done.returncode == 0:
        return None
    complaints = done.stderr.decode(errors="replace").strip().splitlines()
    return complaints[-1] if complaints else f"it ended with code {done.returncode}"
