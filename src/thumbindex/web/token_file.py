"""The token file: names and hashes.

`thumbindex token` uses this module without the MCP and JWT packages that `access` imports.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
from pathlib import Path

from filelock import FileLock, Timeout

from thumbindex.config import user_config_file
from thumbindex.errors import ConfigError, UsageError
from thumbindex.owner_file import write_owner_file

TOKEN_PREFIX = "ti_"
"""Prefix of every token. Secret scanners recognize tokens by it."""

_TOKEN_BYTES = 32
"""Number of random bytes in a token. They cannot be guessed, so a fast hash is enough."""

_LOCK_SECONDS = 10.0
"""Maximum seconds that `add_token` waits while another process adds a token."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_LINE = re.compile(rf"({_NAME.pattern})\s+sha256:([0-9a-f]{{64}})", re.ASCII)

_FILE_HEADER = (
    b"# Tokens of `thumbindex serve --http`, written by `thumbindex token`: one name and hash per "
    b"line. Delete a line to revoke its token.\n"
)


def default_token_file() -> Path:
    """Return the default path of the token file.

    The HTTP server uses an existing file at this path if neither `token_file` nor `issuer` is set.
    """
    return user_config_file().with_name("tokens")


def hash_token(token: str) -> bytes:
    """Return a token's hash, which is stored instead of the token."""
    return hashlib.sha256(token.encode("utf-8", errors="surrogatepass")).digest()


def read_hashes(path: Path) -> dict[str, bytes]:
    """Return the hashes in a token file by token name.

    Raises ConfigError for an invalid line. The error does not quote the line: it may hold a token.
    """
    hashes: dict[str, bytes] = {}
    for number, line in enumerate(
        path.read_bytes().decode("utf-8-sig", errors="replace").splitlines(), start=1
    ):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise ConfigError(
                f"{path}:{number}: expected `NAME sha256:HASH`. Do not write tokens into this "
                "file: `thumbindex token NAME` adds a line."
            )
        if match[1] in hashes:
            raise ConfigError(
                f"{path}:{number}: a second token is named {match[1]!r}: delete one of the lines."
            )
        hashes[match[1]] = bytes.fromhex(match[2])
    return hashes


def add_token(path: Path, name: str) -> str:
    """Create a token, store its name and hash, and return the token. Raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid token name: use up to 64 letters, digits, dots, dashes and "
            "underscores, starting with a letter or digit."
        )
    try:
        file = path.resolve()  # keep a symlink: write to its target
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(file.with_name(f".{file.name}.lock"), timeout=_LOCK_SECONDS, mode=0o660):
            if file.exists() and name in read_hashes(file):
                raise UsageError(
                    f"{path} already has a token named {name!r}: delete its line to revoke it, or "
                    "use another name."
                )
            token = TOKEN_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
            _append(file, f"{name} sha256:{hash_token(token).hex()}\n".encode())
    except Timeout as error:
        raise UsageError(
            f"Another process has locked the token file {path} for {_LOCK_SECONDS:g} seconds: end "
            "that process and try again."
        ) from error
    except OSError as error:
        raise UsageError(
            f"Cannot write the token file {path}: {error.strerror}. Choose another file "
            "with --token-file."
        ) from error
    return token


def _append(path: Path, line: bytes) -> None:
    """Append a line to the token file. If writing fails, leave the file unchanged."""
    if not path.exists():
        write_owner_file(path, _FILE_HEADER + line, durable=True)
        return
    # written in place, to keep the owner and permissions
    with path.open("r+b", buffering=0) as file:
        before = file.read()
        head = b"" if before.endswith(b"\n") else b"\n" if before else _FILE_HEADER
        try:
            if file.write(head + line) != len(head + line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())
        except OSError:
            file.truncate(len(before))  # half a line would invalidate the whole file
            raise
