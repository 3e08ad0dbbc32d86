"""The token file: names and hashes.

Apart from `access`, since the command that adds a token needs neither the protocol nor JWTs.
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
"""The beginning of every token, which secret scanners recognize."""

_TOKEN_BYTES = 32
"""Random bytes of a token: too many to guess, so a fast hash is enough."""

_LOCK_SECONDS = 10.0
"""Maximum wait for another process that adds a token."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_LINE = re.compile(rf"({_NAME.pattern})\s+sha256:([0-9a-f]{{64}})", re.ASCII)

_FILE_HEADER = (
    b"# Tokens of `thumbindex serve --http`, as `thumbindex token` writes them: a name and a hash "
    b"a line. Delete a line to revoke it.\n"
)


def default_token_file() -> Path:
    """Return the default path of the token file. If it exists, a server over HTTP requires
    tokens.
    """
    return user_config_file().with_name("tokens")


def hash_token(token: str) -> bytes:
    """Return the hash by which a token is kept."""
    return hashlib.sha256(token.encode("utf-8", errors="surrogatepass")).digest()


def read_hashes(path: Path) -> dict[str, bytes]:
    """Return the hashes in a token file by name.

    Raises ConfigError for an invalid line, without showing it: it may hold a token.
    """
    found: dict[str, bytes] = {}
    for number, line in enumerate(
        path.read_bytes().decode("utf-8-sig", errors="replace").splitlines(), start=1
    ):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        read = _LINE.fullmatch(line.strip())
        if read is None:
            raise ConfigError(
                f"{path}:{number}: not `NAME sha256:HASH`: the file holds no tokens, only "
                "what `thumbindex token NAME` writes."
            )
        if read[1] in found:
            raise ConfigError(
                f"{path}:{number}: there are two tokens of the name {read[1]!r}: delete one "
                "of the lines."
            )
        found[read[1]] = bytes.fromhex(read[2])
    return found


def add_token(path: Path, name: str) -> str:
    """Add a token to the file and return it; only its hash is stored. Raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name of a token: take up to 64 letters, digits, dots, dashes and "
            "underscores."
        )
    try:
        file = path.resolve()  # a symlink stays one
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(file.with_name(f".{file.name}.lock"), timeout=_LOCK_SECONDS, mode=0o660):
            if file.exists() and name in read_hashes(file):
                raise UsageError(
                    f"{path} has a token {name!r} already: delete its line first, which "
                    "revokes it, or take another name."
                )
            token = TOKEN_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
            _append(file, f"{name} sha256:{hash_token(token).hex()}\n".encode())
    except Timeout as error:
        raise UsageError(
            f"{path}: another process has been writing the token file for too long: end it "
            "and try again."
        ) from error
    except OSError as error:
        raise UsageError(
            f"{path}: the token file cannot be written ({error.strerror}): name another one "
            "with --token-file."
        ) from error
    return token


def _append(path: Path, line: bytes) -> None:
    """Append a line, or leave the file unchanged.

    An existing file keeps its owner and rights; a new one is readable by its owner alone.
    """
    if not path.exists():
        write_owner_file(path, _FILE_HEADER + line, durable=True)
        return
    with path.open("r+b", buffering=0) as file:
        before = file.read()
        head = b"" if before.endswith(b"\n") else b"\n" if before else _FILE_HEADER
        try:
            if file.write(head + line) != len(head + line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())
        except OSError:
            file.truncate(len(before))  # half a line would let nobody in
            raise
