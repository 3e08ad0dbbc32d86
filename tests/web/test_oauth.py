"""An issuer's tokens, from a small issuer of the tests' own: real keys, real JWTs, real sockets."""

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
    """Publishes metadata and keys, and signs whatever it is told to."""

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
        """Sign claims for us, others in place of the usual ones; None leaves one out."""
        now = int(time.time())
        usual = {
            "iss": self.url,
            "aud": URL,
            "sub": "u-1",
            "iat": now,
            "exp": now + 300,
            "scope": "notes",
        }
        kept = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        return jwt.encode(kept, key or self.keys[kid], algorithm=algorithm, headers={"kid": kid})

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    found = Issuer()
    yield found
    found.close()


@pytest.fixture(scope="module")
def guarded(serve: Callable[..., Any], issuer: Issuer) -> Iterator[Any]:
    with serve(
        issuer=issuer.url, url=URL, scopes=("notes",), metrics=("scope:metrics",)
    ) as running:
        yield running


def folders(running: Any, token: str) -> list[str] | int:
    """Return the folders that a token's holder sees, or the status with which he is refused."""
    answer = running.call(
        "tools/call", {"Authorization": f"Bearer {token}"}, name="status", arguments={}
    )
    return (
        [each["folder"] for each in answer.json()["result"]["structuredContent"]["folders"]]
        if answer.status_code == 200
        else answer.status_code
    )


def test_a_token_sees_what_its_claims_are_given(guarded: Any, issuer: Issuer) -> None:
    assert folders(guarded, issuer.sign()) == ["handbook"]
    assert folders(guarded, issuer.sign(groups=["finance"])) == ["handbook", "salaries"]
    assert folders(guarded, issuer.sign(aud=["https://other.example.org", URL])) == ["handbook"]
    assert folders(guarded, issuer.sign(scope=None, scp=["notes"])) == ["handbook"]


def test_an_issuer_cannot_hand_out_the_name_of_a_token_of_ours(
    guarded: Any, issuer: Issuer
) -> None:
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
    """Write a part of a token as tokens are written."""
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


def test_no_other_token_is_taken(guarded: Any, issuer: Issuer) -> None:
    tokens = hostile(issuer)
    found = {name: folders(guarded, token) for name, token in tokens.items()}
    assert found == dict.fromkeys(tokens, 401)


def test_a_token_without_the_scope_is_refused_with_its_name(guarded: Any, issuer: Issuer) -> None:
    refused = guarded.call("tools/list", {"Authorization": f"Bearer {issuer.sign(scope='mail')}"})
    assert (refused.status_code, refused.json()["error_description"]) == (
        403,
        "Required scope: notes",
    )


def test_a_token_in_the_address_is_none(guarded: Any, issuer: Issuer) -> None:
    assert guarded.ask(f"/mcp?access_token={issuer.sign()}").status_code == 401


def test_a_client_finds_the_issuer(guarded: Any, issuer: Issuer) -> None:
    told = guarded.call("tools/list").headers["www-authenticate"]
    assert (
        'resource_metadata="https://notes.example.org/.well-known/oauth-protected-resource/mcp"'
        in told
    )
    metadata = guarded.ask("/.well-known/oauth-protected-resource/mcp").json()
    assert (
        metadata["resource"],
        metadata["authorization_servers"],
        metadata["scopes_supported"],
    ) == (URL, [issuer.url], ["notes"])


def test_a_session_belongs_to_one_subject(guarded: Any, issuer: Issuer) -> None:
    def post(subject: str, **more: str) -> Any:
        token = issuer.sign(sub=subject, client_id="ide")
        return guarded.greet({"Authorization": f"Bearer {token}", **more})

    session = post("u-1").headers["mcp-session-id"]
    assert post("u-2", **{"Mcp-Session-Id": session}).status_code == 404


def test_the_page_is_for_whom_the_issuer_vouches(serve: Callable[..., Any], issuer: Issuer) -> None:
    with serve(issuer=issuer.url, url=URL, scopes=("notes",), page=True) as running:

        def asks(token: str) -> Any:
            return running.ask(
                "/ask.json?q=zirconium+band", headers={"Authorization": f"Bearer {token}"}
            )

        def signs_in(token: str) -> Any:
            answer = running.ask(
                "/sign-in",
                "POST",
                {"Sec-Fetch-Site": "same-origin"},
                data={"token": token, "to": "/"},
            )
            cookie = answer.headers.get("set-cookie", "").partition(";")[0]
            assert token not in cookie
            return (
                running.ask("/ask.json?q=zirconium+band", headers={"Cookie": cookie})
                if cookie
                else answer
            )

        for way in (asks, signs_in):
            found = [way(issuer.sign(groups=[group])).text for group in ("finance", "sales")]
            assert ["zirconium band earns" in each for each in found] == [True, False]
            refused = [
                way(token).status_code
                for token in (issuer.sign(scope="mail"), hostile(issuer)["of another key"])
            ]
            assert set(refused) <= {400, 401, 403}
        assert running.ask("/ask.json?q=zirconium").status_code == 401


# ------------------------------------------------------------------ keys


def test_a_new_key_is_found_and_made_up_ones_ask_nobody() -> None:
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


def test_keys_are_used_for_an_hour_while_the_issuer_is_away() -> None:
    issuer, now = Issuer(), [0.0]
    keys = SigningKeys(issuer.url, clock=lambda: now[0])
    keys.find("one")
    issuer.close()
    now[0] = 400.0
    assert keys.find("one") is not None
    now[0] = 4000.0
    assert keys.find("one") is None


def test_a_token_of_the_file_does_not_wait_for_a_silent_issuer(
    serve: Callable[..., Any],
) -> None:
    """Made-up key ids make the server ask the issuer, in threads of their own."""
    issuer = Issuer()
    issuer.speaks.clear()
    with serve(issuer=issuer.url, url=URL) as running, ThreadPoolExecutor(20) as pool:
        tokens = [issuer.sign() for _ in range(20)]
        waiting = [pool.submit(folders, running, token) for token in tokens]
        assert until(lambda: issuer.asked != [])
        assert running.call("tools/list", running.token("bob")).status_code == 200
        assert not any(each.done() for each in waiting)
        issuer.speaks.set()
        assert {each.result() == ["handbook"] for each in waiting} == {True}
    issuer.close()


def test_keys_are_taken_from_the_address_that_is_configured_and_metadata_are_not_asked_for(
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
def test_metadata_that_lead_elsewhere_are_not_followed(metadata: dict[str, Any]) -> None:
    issuer = Issuer()
    issuer.metadata = metadata
    assert SigningKeys(issuer.url).find("one") is None
    assert "/keys" not in issuer.asked
    issuer.close()


def test_keys_come_over_https_or_from_this_machine() -> None:
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


def test_metrics_are_for_the_scope_that_is_named(guarded: Any, issuer: Issuer) -> None:
    statuses = [
        guarded.ask(
            "/metrics", headers={"Authorization": f"Bearer {issuer.sign(scope=scope)}"}
        ).status_code
        for scope in ("notes", "notes metrics")
    ]
    assert statuses == [403, 200]
