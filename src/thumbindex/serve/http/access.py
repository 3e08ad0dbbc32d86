"""Access over HTTP: tokens, an OAuth issuer's tokens, and who sees which folders."""

from __future__ import annotations

import errno
import hashlib
import hmac
import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
from anyio.to_thread import run_sync
from filelock import FileLock, Timeout
from mcp.server.auth.provider import AccessToken

from thumbindex.errors import ConfigError, ThumbindexError, UsageError
from thumbindex.settings import HttpSettings

PREFIX = "ti_"
"""How a token begins, so that those who look for secrets in files recognize it."""

_BYTES = 32
"""Of randomness: nobody finds a token by trying, so that a plain hash keeps it; slow ones are for passwords that people think of."""

_PATIENCE_SECONDS = 10.0
"""For another process that adds a token: it needs milliseconds."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_LINE = re.compile(rf"({_NAME.pattern})\s+sha256:([0-9a-f]{{64}})", re.ASCII)

_HEAD = b"# Tokens of `thumbindex serve --http`, as `thumbindex token` writes them: a name and a hash a line. Delete a line to revoke it.\n"


def hash_token(token: str) -> bytes:
    """Return the hash by which a token is kept."""
    return hashlib.sha256(token.encode("utf-8", errors="surrogatepass")).digest()


def read_hashes(path: Path) -> dict[str, bytes]:
    """Return the hashes in a token file by name; raise ConfigError for a line that is none, and never show it: it may hold a token."""
    found: dict[str, bytes] = {}
    for number, line in enumerate(path.read_bytes().decode("utf-8", errors="replace").splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        read = _LINE.fullmatch(line.strip())
        if read is None:
            raise ConfigError(f"{path}:{number}: not `NAME sha256:HASH`: the file holds no tokens, only what `thumbindex token NAME` writes.")
        if read[1] in found:
            raise ConfigError(f"{path}:{number}: there are two tokens of the name {read[1]!r}: delete one of the lines.")
        found[read[1]] = bytes.fromhex(read[2])
    return found


def add_token(path: Path, name: str) -> str:
    """Make a token and write its hash into the file; return the token, which is kept nowhere. Raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a token: take up to 64 letters, digits, dots, dashes and underscores.")
    try:
        file = path.resolve()  # a symlink stays one
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(file.with_name(f".{file.name}.lock"), timeout=_PATIENCE_SECONDS, mode=0o660):
            if file.exists() and name in read_hashes(file):
                raise UsageError(f"{path} has a token {name!r} already: delete its line first, which revokes it, or take another name.")
            token = PREFIX + secrets.token_urlsafe(_BYTES)
            _append(file, f"{name} sha256:{hash_token(token).hex()}\n".encode())
    except Timeout as error:
        raise UsageError(f"{path}: another process has been writing the token file for too long: end it and try again.") from error
    except OSError as error:
        raise UsageError(f"{path}: the token file cannot be written ({error.strerror}): name another one with --token-file.") from error
    return token


def _append(path: Path, line: bytes) -> None:
    """Add a line at once, or nothing; a file that is there keeps its owner and rights, a new one is for its owner's eyes."""
    before = path.read_bytes() if path.exists() else b""
    head = b"" if before.endswith(b"\n") else b"\n" if before else _HEAD
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o600), "wb", buffering=0) as file:
        if file.write(head + line) != len(head + line):  # half a line would let nobody in
            file.truncate(len(before))
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(file.fileno())


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


EVERYONE = "*"
"""In `tokens`: whoever has a token that is taken."""

OF_AN_ISSUER = ("sub", "scope", "group")
"""What an issuer's token tells of its holder: in `tokens` with a colon, as `group:finance`. No issuer can hand out the name of a token of ours."""

Granted = Mapping[str, Collection[str]]


@dataclass(frozen=True, slots=True)
class Rights:
    """By folder, the names that see it; without any, whoever may ask sees all folders."""

    folders: tuple[str, ...]
    granted: Granted

    def seen_by(self, names: Collection[str]) -> frozenset[str]:
        """Return the folders that the holder of these names sees."""
        if not self.granted:
            return frozenset(self.folders)
        return frozenset(folder for folder in self.folders if {EVERYONE, *names} & set(self.granted.get(folder, ())))


def checked_rights(
    folders: Sequence[tuple[str, Path]],
    granted: Granted,
    known: Collection[str],
    *,
    asks: bool,
    has_issuer: bool,
    configured: Mapping[str, Path] | None = None,
) -> Rights:
    """Return the rights over some folders; raise ConfigError where a folder would be open, or closed, by an oversight.

    `known` are the names in the token file, `asks` says that a token is asked for, `has_issuer` that there is an issuer; `configured` are the
    roots of the folders that `granted` is about: a folder that is only called the same, by its directory, has nobody's rights.
    """
    names = tuple(name for name, _ in folders)
    here = {name: tuple(granted[name]) for name, root in folders if name in granted and (configured or {}).get(name, root) == root}
    if here and not asks:
        raise ConfigError(
            f"The folder {next(iter(here))!r} names the tokens that see it, but no token is asked for: give --token-file or `serve.http.issuer`."
        )
    # Whatever else is served: where rights are configured at all, a folder without any, a part of another one perhaps, is an oversight.
    for name in names if granted else ():
        if name not in here:
            raise ConfigError(
                f"The folder {name!r} names no `tokens`, others of the configuration do: write it as [[folders]] "
                f'with tokens = ["{EVERYONE}"] if every token may see it.'
            )
    for name, tokens in here.items():
        for token in tokens:
            _check_name(name, token, known, has_issuer)
    return Rights(names, here)


def nested(folders: Sequence[tuple[str, Path]], rights: Rights) -> list[str]:
    """Say which folders lie in another one that somebody sees who does not see them: their files are found in the outer one."""
    return [
        f"The folder {inner!r} lies in {outer!r}: who sees {outer!r} finds its files there, unless that folder excludes them (`corpus.exclude`)."
        for inner, root in folders
        for outer, above in folders
        if above in root.parents and rights.granted and set(rights.granted[outer]) - set(rights.granted[inner])
        if EVERYONE not in rights.granted[inner]
    ]


def _check_name(folder: str, token: str, known: Collection[str], has_issuer: bool) -> None:
    kind, colon, _ = token.partition(":")
    if token == EVERYONE or token in known:
        return
    if not colon:
        raise ConfigError(f"The folder {folder!r} names the token {token!r}, which is not in the token file: `thumbindex token {token}` makes it.")
    if kind not in OF_AN_ISSUER:
        raise ConfigError(f"The folder {folder!r} names {token!r}: write {', '.join(f'{each}:NAME' for each in OF_AN_ISSUER)}, or a token's name.")
    if not has_issuer:
        raise ConfigError(f"The folder {folder!r} names {token!r}, but there is no issuer that tells of it: set `serve.http.issuer`.")


ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures that are taken: by a private key that the issuer alone has. Never `none`, never a secret that is shared."""

LONGEST_TOKEN = 16_384
"""Characters: no issuer's token is longer, and a longer one is not worked on."""

_FETCH_SECONDS = 5.0

_KEYS_SECONDS, _OLDEST_SECONDS = 300.0, 3600.0
"""After the first keys are fetched anew; until the second the old ones are believed where the issuer does not answer."""

_COOLDOWN_SECONDS = 10.0
"""Between two questions to the issuer, answered or not."""

_LEEWAY_SECONDS = 30.0
"""By which two machines' clocks may differ."""

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}

_METADATA = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")


class Issuer:
    """Verifies one issuer's access tokens for one audience (RFC 9068, RFC 7519)."""

    def __init__(self, settings: HttpSettings) -> None:
        self.address = settings.issuer
        self._audience = settings.audience or settings.url
        for name, address in (("issuer", self.address), ("jwks", settings.jwks)):
            if address and not is_safe(address):
                raise ConfigError(f"`serve.http.{name}` must begin with https://, not {address!r}: whoever is between could forge tokens.")
        if not settings.url:
            raise ConfigError("`serve.http.issuer` needs `serve.http.url`, the address of /mcp as clients write it: tokens for others are not taken.")
        self._keys = Keys(self.address, settings.jwks)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return what a token tells of its holder; None for one that is not this issuer's, not for us, or too old."""
        return await run_sync(self._verify, token) if len(token) <= LONGEST_TOKEN and token.count(".") == 2 else None

    def _verify(self, token: str) -> AccessToken | None:
        try:
            header = jwt.get_unverified_header(token)
            key = self._keys.find(str(header.get("kid"))) if header.get("alg") in ALGORITHMS else None
            if key is None:
                return None
            claims = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=self._audience,
                issuer=self.address,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, ValueError, RecursionError):
            return None
        return _access(claims)


class Keys:
    """An issuer's public keys by their ids. Who shows a token of a known key never waits for the issuer."""

    def __init__(self, issuer: str, jwks: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._issuer, self._jwks, self._clock = issuer, jwks, clock
        self._known: Mapping[str, jwt.PyJWK] = {}
        self._fetched_at = self._asked_at = float("-inf")
        self._lock = threading.Lock()

    def find(self, kid: str) -> jwt.PyJWK | None:
        """Return the key of an id; one that is not known, or too old, is asked for, but not for every token that somebody makes up."""
        if self._believed(kid) is None:
            self._renew()
        elif self._clock() > self._fetched_at + _KEYS_SECONDS and self._may_ask() and not self._lock.locked():
            threading.Thread(target=self._renew, name="issuer's keys", daemon=True).start()
        return self._believed(kid)

    def _believed(self, kid: str) -> jwt.PyJWK | None:
        return None if self._clock() > self._fetched_at + _OLDEST_SECONDS else self._known.get(kid)

    def _may_ask(self) -> bool:
        return self._clock() > self._asked_at + _COOLDOWN_SECONDS

    def _renew(self) -> None:
        with self._lock:
            if self._may_ask():
                self._fetch()
                self._asked_at = self._clock()

    def _fetch(self) -> None:
        try:
            found = jwt.PyJWKSet.from_dict(dict(_fetch_json(self._jwks or self._published())))
        except (jwt.PyJWTError, OSError, ValueError) as error:  # a connection that is cut off comes as the system calls it
            _LOG.warning("The keys of %s cannot be had: %s", self._issuer, error)
            return
        self._known = {key.key_id: key for key in found.keys if key.key_id and key.public_key_use in ("sig", None)}
        self._fetched_at = self._clock()

    def _published(self) -> str:
        """Return where the issuer says that its keys are (RFC 8414, OpenID Connect Discovery). Raises PyJWKClientError."""
        failure = jwt.PyJWKClientError("it publishes no metadata: set `serve.http.jwks`.")
        for address in _metadata_addresses(self._issuer):
            try:
                found = _fetch_json(address)
            except (jwt.PyJWKClientError, OSError, ValueError) as error:
                failure = jwt.PyJWKClientError(f"{address}: {error}")
                continue
            jwks = found.get("jwks_uri")
            if found.get("issuer") == self._issuer and isinstance(jwks, str) and is_safe(jwks):
                return jwks
            failure = jwt.PyJWKClientError(f"{address} is not its metadata, or names no keys over https: set `serve.http.jwks`.")
        raise failure


def _fetch_json(address: str) -> Mapping[str, Any]:
    # The client for keys fetches any JSON object, in a bounded time, and follows no redirect.
    found: Mapping[str, Any] = jwt.PyJWKClient(address, cache_jwk_set=False, timeout=_FETCH_SECONDS).fetch_data()
    return found


def is_safe(address: str) -> bool:
    """Tell whether nobody between can change what an address answers: https, or this machine."""
    parts = urlsplit(address)
    return (parts.scheme == "https" and bool(parts.hostname)) or (parts.scheme == "http" and parts.hostname in _LOOPBACK)


def _metadata_addresses(issuer: str) -> list[str]:
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    root = f"{parts.scheme}://{parts.netloc}"
    return [f"{root}{_METADATA[0]}{path}", f"{root}{path}{_METADATA[1]}"]


def _access(claims: Mapping[str, Any]) -> AccessToken:
    """Put a token's claims as the protocol's package holds them; the token itself is not kept."""
    subject = str(claims["sub"])
    scopes = _texts(claims.get("scope", claims.get("scp")))
    names = [f"sub:{subject}", *(f"scope:{each}" for each in scopes), *(f"group:{each}" for each in _texts(claims.get("groups")))]
    client = str(claims.get("client_id") or claims.get("azp") or subject)
    # `iss` with the subject is what a session belongs to: another holder's session is not found.
    kept = {"iss": claims["iss"], "names": names}
    return AccessToken(token="", client_id=client, scopes=scopes, expires_at=int(claims["exp"] + _LEEWAY_SECONDS), subject=subject, claims=kept)


def _texts(claim: object) -> list[str]:
    """Read a claim that is a list, or a text with spaces between."""
    if isinstance(claim, str):
        return claim.split()
    return [each for each in claim if isinstance(each, str)] if isinstance(claim, list) else []
