"""Tokens from a small test issuer with real keys, JWTs and sockets."""

import base64
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from thumbindex.web.access import SigningKeys, is_https_or_loopback
from waiting import until

URL = "https://notes.example.org/mcp"


class Issuer:
    """A test issuer that publishes metadata and keys and signs any claims."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {
            "one": rsa.generate_private_key(public_exponent=65537, key_size=2048)
        }
        self.asked: list[str] = []
        self.metadata: dict[str, Any] = {}
        self.speaks = threading.Event()
        self.speaks.set()
        issuer = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                issuer.speaks.wait(30)
                body = issuer.answer(self.path)
                self.send_response(200 if body is not None else 404)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()

    def answer(self, path: str) -> Any:
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys", **self.metadata}
        return (
            {"keys": [self._public(kid, key) for kid, key in self.keys.items()]}
            if path == "/keys"
            else None
        )

    def _public(self, kid: str, key: Any) -> Any:
        kind = (
            jwt.algorithms.RSAAlgorithm
            if isinstance(key, rsa.RSAPrivateKey)
            else jwt.algorithms.ECAlgorithm
        )
        return {**json.loads(kind.to_jwk(key.public_key())), "kid": kid, "use": "sig"}

    def sign(
        self, kid: str = "one", algorithm: str = "RS256", key: Any = None, **claims: Any
    ) -> str:
        """Sign the usual claims with changes; None removes a claim."""
        now = int(time.time())
        usual = {
            "iss": self.url,
            "aud": URL,
            "sub": "u-1",
            "iat": now,
            "exp": now + 300,
            "scope": "notes",
        }
        final = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        return jwt.encode(final, key or self.keys[kid], algorithm=algorithm, headers={"kid": kid})

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    server = Issuer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def guarded(serve: Callable[..., Any], issuer: Issuer) -> Iterator[Any]:
    with serve(
        issuer=issuer.url, url=URL, scopes=("notes",), metrics=("scope:metrics",)
    ) as running:
        yield running


def folders(running: Any, token: str) -> list[str] | int:
    """Return the folders visible to a token, or the status of the refusal."""
    answer = running.call(
        "tools/call", {"Authorization": f"Bearer {token}"}, name="status", arguments={}
    )
    return (
        [entry["folder"] for entry in answer.json()["result"]["structuredContent"]["folders"]]
        if answer.status_code == 200
        else answer.status_code
    )


def test_claims_decide_visible_folders(guarded: Any, issuer: Issuer) -> None:
    assert folders(guarded, issuer.sign()) == ["handbook"]
    assert folders(guarded, issuer.sign(groups=["finance"])) == ["handbook", "salaries"]
    assert folders(guarded, issuer.sign(aud=["https://other.example.org", URL])) == ["handbook"]
    assert folders(guarded, issuer.sign(scope=None, scp=["notes"])) == ["handbook"]


def test_issuer_claims_cannot_impersonate_token_file_names(guarded: Any, issuer: Issuer) -> None:
    assert folders(
        guarded,
        issuer.sign(sub="alice", client_id="alice", groups=["alice", "*", "x group:finance"]),
    ) == ["handbook"]


def hostile(issuer: Issuer) -> dict[str, str]:
    now, key = int(time.time()), issuer.keys["one"]
    another = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    good = issuer.sign()
    claims = jwt.decode(good, options={"verify_signature": False})
    head, body, signature = good.split(".")
    pem = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    shared = f"{encoded(json.dumps({'alg': 'HS256', 'kid': 'one'}).encode())}.{body}"
    by_secret = encoded(hmac.digest(pem, shared.encode(), "sha256"))
    return {
        "for another": issuer.sign(aud="https://other.example.org/mcp"),
        "for a longer address": issuer.sign(aud=f"{URL}/x"),
        "for nobody": issuer.sign(aud=None),
        "of another issuer": issuer.sign(iss="https://login.example.org"),
        "of none": issuer.sign(iss=None),
        "expired": issuer.sign(exp=now - 60),
        "for ever": issuer.sign(exp=None),
        "not yet": issuer.sign(nbf=now + 600),
        "without subject": issuer.sign(sub=None),
        "of another key": issuer.sign(key=another),
        "of an unknown key": jwt.encode(claims, another, "RS256", {"kid": "two"}),
        "without key": jwt.encode(claims, key, "RS256"),
        "unsigned": jwt.encode(claims, "", "none", {"kid": "one"}),
        "signature cut off": f"{head}.{body}.",
        "signature of another": f"{head}.{issuer.sign(sub='root').split('.')[1]}.{signature}",
        "with the public key as a shared secret": f"{shared}.{by_secret}",
        "no token": "a.b.c",
        "too long": f"{head}.{'x' * 20_000}.{signature}",
    }


def encoded(part: bytes) -> str:
    """Encode a part of a JWT."""
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


def test_invalid_tokens_are_refused(guarded: Any, issuer: Issuer) -> None:
    tokens = hostile(issuer)
    results = {name: folders(guarded, token) for name, token in tokens.items()}
    assert results == dict.fromkeys(tokens, 401)


def test_missing_scope_is_named_in_the_refusal(guarded: Any, issuer: Issuer) -> None:
    refused = guarded.call("tools/list", {"Authorization": f"Bearer {issuer.sign(scope='mail')}"})
    assert (refused.status_code, refused.json()["error_description"]) == (
        403,
        "Required scope: notes",
    )


def test_token_in_the_query_string_is_ignored(guarded: Any, issuer: Issuer) -> None:
    assert guarded.ask(f"/mcp?access_token={issuer.sign()}").status_code == 401


def test_client_discovers_the_issuer(guarded: Any, issuer: Issuer) -> None:
    header = guarded.call("tools/list").headers["www-authenticate"]
    assert (
        'resource_metadata="https://notes.example.org/.well-known/oauth-protected-resource/mcp"'
        in header
    )
    metadata = guarded.ask("/.well-known/oauth-protected-resource/mcp").json()
    assert (
        metadata["resource"],
        metadata["authorization_servers"],
        metadata["scopes_supported"],
    ) == (URL, [issuer.url], ["notes"])


def test_session_belongs_to_one_subject(guarded: Any, issuer: Issuer) -> None:
    def post(subject: str, **more: str) -> Any:
        token = issuer.sign(sub=subject, client_id="ide")
        return guarded.greet({"Authorization": f"Bearer {token}", **more})

    session = post("u-1").headers["mcp-session-id"]
    assert post("u-2", **{"Mcp-Session-Id": session}).status_code == 404


def test_page_accepts_the_issuers_tokens_only(serve: Callable[..., Any], issuer: Issuer) -> None:
    with serve(issuer=issuer.url, url=URL, scopes=("notes",), page=True) as running:

        def ask(headers: dict[str, str]) -> Any:
            json = {"Accept": "application/json"}  # a refusal, not the way to the form
            return running.ask("/?q=zirconium+band", headers=headers | json)

        def asks(token: str) -> Any:
            return ask({"Authorization": f"Bearer {token}"})

        def signs_in(token: str) -> Any:
            answer = running.ask(
                "/sign-in",
                "POST",
                {"Sec-Fetch-Site": "same-origin"},
                data={"token": token, "to": "/"},
            )
            cookie = answer.headers.get("set-cookie", "").partition(";")[0]
            assert token not in cookie
            return ask({"Cookie": cookie}) if cookie else answer

        for request in (asks, signs_in):
            texts = [request(issuer.sign(groups=[group])).text for group in ("finance", "sales")]
            assert ["earns" in text for text in texts] == [True, False]
            refused = [
                request(token).status_code
                for token in (issuer.sign(scope="mail"), hostile(issuer)["of another key"])
            ]
            assert set(refused) <= {400, 401, 403}
        assert ask({}).status_code == 401


# ------------------------------------------------------------------ keys


def test_new_keys_are_fetched_and_invented_key_ids_cause_no_requests() -> None:
    issuer, now = Issuer(), [0.0]
    keys = SigningKeys(issuer.url, clock=lambda: now[0])
    assert keys.find("one") is not None
    fetched = issuer.asked.count("/keys")
    issuer.keys["two"] = ec.generate_private_key(ec.SECP256R1())
    assert [keys.find(f"made up {n}") for n in range(100)] == [None] * 100
    assert issuer.asked.count("/keys") == fetched == 1
    now[0] += 11
    assert keys.find("two") is not None
    issuer.close()


def test_keys_stay_valid_for_an_hour_if_the_issuer_is_down() -> None:
    issuer, now = Issuer(), [0.0]
    keys = SigningKeys(issuer.url, clock=lambda: now[0])
    keys.find("one")
    issuer.close()
    now[0] = 400.0
    assert keys.find("one") is not None
    now[0] = 4000.0
    assert keys.find("one") is None


def test_silent_issuer_does_not_delay_token_file_users(
    serve: Callable[..., Any],
) -> None:
    """Requests to the issuer use separate threads."""
    issuer = Issuer()
    issuer.speaks.clear()
    with serve(issuer=issuer.url, url=URL) as running, ThreadPoolExecutor(20) as pool:
        tokens = [issuer.sign() for _ in range(20)]
        waiting = [pool.submit(folders, running, token) for token in tokens]
        assert until(lambda: issuer.asked != [])
        assert running.call("tools/list", running.token("bob")).status_code == 200
        assert not any(future.done() for future in waiting)
        issuer.speaks.set()
        assert {future.result() == ["handbook"] for future in waiting} == {True}
    issuer.close()


def test_configured_jwks_address_skips_discovery(
    serve: Callable[..., Any],
) -> None:
    issuer = Issuer()
    with serve(issuer=issuer.url, url=URL, scopes=("notes",), jwks=f"{issuer.url}/keys") as running:
        assert folders(running, issuer.sign()) == ["handbook"]
    assert issuer.asked == ["/keys"]
    issuer.close()


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example.org"},
        {"jwks_uri": "http://evil.example.org/keys"},
        {"jwks_uri": 3},
    ],
)
def test_suspicious_issuer_metadata_is_ignored(metadata: dict[str, Any]) -> None:
    issuer = Issuer()
    issuer.metadata = metadata
    assert SigningKeys(issuer.url).find("one") is None
    assert "/keys" not in issuer.asked
    issuer.close()


def test_keys_require_https_or_loopback() -> None:
    addresses = [
        "https://a.example.org",
        "http://127.0.0.1:9",
        "http://a.example.org",
        "file:///etc/passwd",
        "https://",
        "http://localhost.evil.org",
    ]
    assert [is_https_or_loopback(address) for address in addresses] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]


def test_metrics_require_the_configured_scope(guarded: Any, issuer: Issuer) -> None:
    statuses = [
        guarded.ask(
            "/metrics", headers={"Authorization": f"Bearer {issuer.sign(scope=scope)}"}
        ).status_code
        for scope in ("notes", "notes metrics")
    ]
    assert statuses == [403, 200]
