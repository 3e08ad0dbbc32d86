"""The page's routes: signing in, headers, and protection against other sites."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from thumbindex.background.host import LibraryHost
from thumbindex.opening import OpenOptions
from thumbindex.page.session import IDLE_SECONDS, OneTimeKey, SessionStore, cookie_name
from thumbindex.page.site import FORMS, SCREENS, SECURITY_HEADERS, static_address, static_files
from thumbindex.page.visit import same_site_address
from thumbindex.web.app import HttpApp
from thumbindex.web.limits import CHECK_SECONDS, MAX_FAILURES
from thumbindex.web.token_file import add_token

SCREEN_PATHS = ["/" if name == "ask" else f"/{name}" for name in SCREENS if name != "note"]


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """A token file for alice and bob."""
    for name in ("alice", "bob"):
        (tmp_path / name).write_text(add_token(tmp_path / "tokens", name), encoding="utf-8")
    return tmp_path / "tokens"


@pytest.fixture
def team(library, browse, tokens):
    """The page of a server that requires tokens; alice may write."""
    return lambda **given: browse(library, token_file=str(tokens), writers=("alice",), **given)


def sign_in(browser, token: str, to: str = "/"):
    return browser.post("/sign-in", {"token": token, "to": to})


@pytest.mark.parametrize("path", [*SCREEN_PATHS, "/nothing", "/?limit=x"])
def test_every_response_has_security_headers(browser, path):
    response = browser.get(path)
    assert {name: response.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS


def test_refusals_have_security_headers(browse, library):
    response = browse(library, concurrent=0).get("/")
    assert (response.status_code, {name: response.headers[name] for name in SECURITY_HEADERS}) == (
        429,
        SECURITY_HEADERS,
    )


@pytest.mark.parametrize("path", SCREEN_PATHS)
def test_pages_have_no_inline_scripts_or_styles(browser, tags_of, path):
    tags = tags_of(browser.get(path).text).tags
    assert [tag for tag, attributes in tags if tag == "script" and not attributes.get("src")] == []
    assert [
        tag
        for tag, attributes in tags
        if tag == "style" or any(name == "style" or name.startswith("on") for name in attributes)
    ] == []
    loaded = [
        attributes.get("src") or attributes.get("href")
        for tag, attributes in tags
        if tag in {"script", "link", "img"}
    ]
    assert all(address.startswith("/static/") for address in loaded if address)


def test_static_files_are_cached_by_digest(browser):
    response = browser.get(static_address("page.js"))
    assert (response.status_code, response.headers["content-type"]) == (
        200,
        "text/javascript; charset=utf-8",
    )
    assert "immutable" in response.headers["cache-control"]
    assert browser.get("/static/000000000000/page.js").status_code == 404
    assert (
        browser.get(static_address("page.js").replace("page.js", "..%2fsite.py")).status_code == 404
    )


def test_first_page_is_small(browser, tags_of):
    page = browser.get("/?q=sync", Accept_Encoding="gzip")
    tags = tags_of(page.text).tags
    loaded = [
        link
        for tag, attributes in tags
        if tag in {"script", "link"}
        and (link := attributes.get("src") or attributes["href"]).startswith("/")
    ]
    sizes = [
        len(gzip.compress(body))
        for body in (
            page.content,
            *(browser.get(path, Accept_Encoding="identity").content for path in loaded),
        )
    ]
    assert len(loaded) <= 6
    assert sum(sizes) <= 30_000


def test_other_sites_read_nothing(browser):
    for kind in ("cross-site", "same-site"):
        response = browser.ask("/names.json?q=sync", Sec_Fetch_Site=kind)
        assert (response.status_code, "sync.md" in response.text) == (403, False)
        assert browser.ask(static_address("page.js"), Sec_Fetch_Site=kind).status_code == 404
        assert browser.ask("/changes", Sec_Fetch_Site=kind).status_code == 404


def test_link_from_another_site_needs_a_click(browser, tags_of):
    response = browser.ask("/?q=sync", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")
    assert response.status_code == 403
    assert "/?q=sync" in tags_of(response.text).links()
    foreign = browser.ask(
        "//evil.example/x", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate"
    )
    assert [link for link in tags_of(foreign.text).links() if "evil" in link] == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
        {"Sec_Fetch_Site": "", "Origin": ""},
        {"Sec_Fetch_Site": "same-origin", "Origin": "http://evil.example"},
        {"Sec_Fetch_Site": "", "Origin": "http://evil.example"},
        {"Sec_Fetch_Site": "", "Origin": "null"},
    ],
)
def test_other_sites_change_nothing(browser, headers):
    for name, form in FORMS:
        assert browser.post(f"/{name}/{form}", {"id": "1"}, **headers).status_code == 403


def test_origin_header_identifies_our_own_forms(library, browse, tokens):
    browser = browse(library, token_file=str(tokens), hosts=("notes.example.org",))
    own = {"Host": "notes.example.org", "Sec_Fetch_Site": "", "Origin": "https://notes.example.org"}
    assert (
        browser.post(
            "/sign-in", {"token": tokens.with_name("alice").read_text()}, **own
        ).status_code
        == 303
    )
    assert (
        browser.post(
            "/sign-in", {"token": "x"}, **own | {"Origin": "https://other.example.org"}
        ).status_code
        == 403
    )


def test_unknown_host_is_refused(browser):
    assert browser.get("/", Host="rebound.example").status_code == 421


def test_visitors_are_sent_to_sign_in_and_back(team):
    browser = team()
    led = browser.get("/?q=sync")
    assert (led.status_code, led.headers["location"]) == (303, "/sign-in?to=%2F%3Fq%3Dsync")
    assert 'value="/?q=sync"' in browser.get(led.headers["location"]).text
    assert browser.get("/names.json?q=sync").status_code == 401
    assert browser.post("/checkup/decide", {"id": "1"}).status_code == 401
    assert browser.get("/changes").status_code == 401


def test_cookie_holds_no_token_and_sign_out_ends_the_session(team, tokens):
    browser = team()
    token = tokens.with_name("bob").read_text()
    response = sign_in(browser, token, "/?q=sync")
    cookie = response.headers["set-cookie"]
    assert (response.status_code, response.headers["location"]) == (303, "/?q=sync")
    assert token not in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert browser.get("/?q=sync").status_code == 200
    browser.post("/sign-out", {})
    assert browser.get("/?q=sync").status_code == 303


def test_wrong_tokens_are_refused_and_limited(team, tokens):
    browser = team()
    statuses = [sign_in(browser, "ti_wrong").status_code for _ in range(MAX_FAILURES + 1)]
    assert browser.cookies == {}
    assert (set(statuses[:-1]), statuses[-1]) == ({401}, 429)


@pytest.mark.anyio
async def test_sessions_are_verified_again_and_expire():
    now, valid = [1000.0], {"good"}

    class Verifier:
        async def verify_token(self, token):
            from mcp.server.auth.provider import AccessToken

            return (
                AccessToken(token="", client_id="a", scopes=["notes"]) if token in valid else None
            )

    sessions = SessionStore(Verifier(), ("notes",), lambda: now[0])
    first, second = await sessions.sign_in("good"), await sessions.sign_in("good")
    assert first != second
    assert await sessions.sign_in("bad") is None
    now[0] += IDLE_SECONDS + 1
    assert await sessions.user(first) is None
    third = await sessions.sign_in("good")
    valid.clear()
    assert await sessions.user(third) is not None
    now[0] += CHECK_SECONDS + 1
    assert await sessions.user(third) is None


def test_key_works_once_and_announces_the_next(library, browse, plain_config):
    announced: list[str] = []
    key = OneTimeKey(announced.append)
    browser = browse(library)
    browser.site = HttpApp(
        LibraryHost(OpenOptions(), lambda opening: library, command=[]),
        library.folders,
        plain_config,
        key=key,
    )
    address = f"/sign-in/{key.key}"
    assert browser.get("/").status_code == 303
    assert browser.get(address).status_code == 303
    assert browser.get("/?q=sync").status_code == 200
    assert "Only you can see this list" in browser.get("/state").text
    other = replace(browser, cookies={})
    assert other.ask(f"/sign-in/{announced[0]}", "HEAD").cookies == {}
    assert other.get(address).status_code == 401
    assert other.post("/sign-in", {"token": address.rpartition("/")[2]}).status_code == 401
    assert other.get(f"/sign-in/{announced[0]}").status_code == 303
    assert browser.get("/mcp").status_code == 404


def test_cookie_names_differ_by_port():
    first, second = ({"server": ("127.0.0.1", port)} for port in (1, 2))
    assert cookie_name(first, is_secure=False) != cookie_name(second, is_secure=False)
    assert cookie_name(first, is_secure=True).startswith("__Host-")


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "\\/evil",
        "javascript:alert(1)",
        "",
        "/a\nb",
    ],
)
def test_foreign_redirect_targets_become_the_start_page(target):
    assert same_site_address(target) == "/"


def test_templates_and_scripts_escape_everything():
    root = Path(__file__).parents[2] / "src" / "thumbindex" / "page"
    doubtful = ("|safe", "| safe", "autoescape", "<script>")
    wrong = [
        template.name
        for template in (root / "templates").glob("*.html")
        if any(word in template.read_text(encoding="utf-8") for word in doubtful)
    ]
    scripts = {name: body for name, body in static_files().items() if name.endswith(".js")}
    unsafe = [name for name, body in scripts.items() if b"innerHTML" in body or b"eval(" in body]
    assert (wrong, unsafe) == ([], [])
