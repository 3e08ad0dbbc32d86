"""Whether a token that a client shows is one of those whose hashes a file holds."""

from __future__ import annotations

import hmac
import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from mcp.server.auth.provider import AccessToken

from thumbindex.errors import ConfigError, ThumbindexError
from thumbindex.serve.tokens import hash_token, read_hashes

_LOG = logging.getLogger(__name__)


class TokenFile:
    """The hashes in a file, read again when it changes: a line that is deleted is a token that is refused from then on."""

    def __init__(self, path: Path, scopes: Sequence[str] = ()) -> None:
        self._path = path
        self._scopes = list(scopes)  # what scopes there are is an issuer's to say: a token of the file has all that are asked for
        self._seen: tuple[int, int, int] | None = None
        self._hashes: Mapping[str, bytes] = {}
        self._lock = threading.Lock()
        self._refresh()

    def names(self) -> frozenset[str]:
        """Return the names of all tokens."""
        return frozenset(self._hashes)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return what is known of a token that is shown, by its hash alone; None for one that is not in the file."""
        digest = hash_token(token)
        found = None
        for name, known in self._known().items():  # all of them, whichever it is: how long it takes tells nothing
            if hmac.compare_digest(known, digest):
                found = name
        return None if found is None else AccessToken(token=f"sha256:{digest.hex()}", client_id=found, scopes=self._scopes, claims={"names": [found]})

    def _known(self) -> Mapping[str, bytes]:
        with self._lock:
            try:
                self._refresh()
            except ThumbindexError as error:  # no token is better than one that was perhaps revoked
                if self._hashes:
                    _LOG.error("%s Until then no token is taken.", error)
                self._seen, self._hashes = None, {}
            return self._hashes

    def _refresh(self) -> None:
        try:
            facts = self._path.stat()
            now = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
            if now != self._seen:
                self._hashes = read_hashes(self._path)
                self._seen = now
        except OSError as error:
            raise ConfigError(f"{self._path}: the token file cannot be read ({error.strerror}): make it with `thumbindex token NAME`.") from error
