"""Access tokens of an OAuth issuer: whether its signature, audience and dates are right, and what they tell of their holder."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import jwt
from anyio.to_thread import run_sync
from mcp.server.auth.provider import AccessToken

from thumbindex.errors import ConfigError
from thumbindex.settings import HttpSettings

_LOG = logging.getLogger(__name__)

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures that are taken: by a private key that the issuer alone has. Never `none`, never a secret that is shared."""

LONGEST_TOKEN = 16_384
"""Characters: no issuer's token is longer, and a longer one is not worked on."""

_FETCH_SECONDS = 5.0
_KEYS_SECONDS = 300.0
"""After these keys are fetched anew; a key that is not known is asked for earlier, but not more often than every `_COOLDOWN_SECONDS`."""

_COOLDOWN_SECONDS = 10.0

_LEEWAY_SECONDS = 30.0
"""By which two machines' clocks may differ."""

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}

_METADATA = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")


class Issuer:
    """Verifies one issuer's access tokens for one audience (RFC 9068, RFC 7519)."""

    def __init__(self, settings: HttpSettings) -> None:
        self.address = settings.issuer
        self._audience = settings.audience or settings.url
        self._jwks = settings.jwks
        for name, address in (("issuer", self.address), ("jwks", self._jwks)):
            if address and not is_safe(address):
                raise ConfigError(
                    f"`serve.http.{name}` must begin with https://, not {address!r}: who changes what comes over http can forge tokens."
                )
        if not self._audience:
            raise ConfigError("`serve.http.issuer` needs `serve.http.url`, the address of /mcp as clients write it: tokens for others are not taken.")
        self._keys: jwt.PyJWKClient | None = None
        self._lock = threading.Lock()

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return what a token tells of its holder; None for one that is not this issuer's, not for us, or too old."""
        return await run_sync(self._verify, token) if len(token) <= LONGEST_TOKEN and token.count(".") == 2 else None

    def _verify(self, token: str) -> AccessToken | None:
        try:
            if jwt.get_unverified_header(token).get("alg") not in ALGORITHMS:
                return None  # before anything is fetched for it
            key = self._key_client().get_signing_key_from_jwt(token)
            claims = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=self._audience,
                issuer=self.address,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWKClientError as error:  # the issuer's fault or a key of another one: the operator should know, the client need not
            _LOG.warning("A token cannot be verified: %s", error)
            return None
        except (jwt.PyJWTError, ValueError, RecursionError):
            return None
        return _access(claims)

    def _key_client(self) -> jwt.PyJWKClient:
        with self._lock:
            if self._keys is None:
                address = self._jwks or self._published()
                self._keys = jwt.PyJWKClient(address, lifespan=_KEYS_SECONDS, timeout=_FETCH_SECONDS, cooldown_duration=_COOLDOWN_SECONDS)
            return self._keys

    def _published(self) -> str:
        """Return where the issuer says that its keys are (RFC 8414, OpenID Connect Discovery). Raises PyJWKClientError."""
        failure: jwt.PyJWKClientError | None = None
        for address in _metadata_addresses(self.address):
            try:
                # Keys' own client fetches any JSON object, and follows no redirect.
                found = jwt.PyJWKClient(address, cache_jwk_set=False, timeout=_FETCH_SECONDS).fetch_data()
            except (jwt.PyJWKClientError, ValueError) as error:
                failure = failure or jwt.PyJWKClientError(f"{address}: {error}")
                continue
            jwks = found.get("jwks_uri")
            if found.get("issuer") != self.address or not isinstance(jwks, str) or not is_safe(jwks):
                raise jwt.PyJWKClientError(f"{address} is not the metadata of {self.address}, or names no keys over https: set `serve.http.jwks`.")
            return jwks
        raise failure or jwt.PyJWKClientError(f"{self.address} publishes no metadata: set `serve.http.jwks`.")


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
