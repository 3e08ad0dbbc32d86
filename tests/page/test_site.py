"""The page's addresses: who gets in, what every answer says beside its text, and what other sites
cannot do.
"""

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
    """A file with a token of alice, who may write, and one of bob."""
    for name in ("alice", "bob"):
        (tmp_path / name).write_text(add_token(tmp_path / "tokens", name), encoding="utf-8")
    return tmp_path / "tokens"


@pytest.fixture
def team(library, browse, tokens):
    """The page of a server that asks for tokens."""
    return lambda **given: browse(library, token_file=str(tokens), writers=("alice",), **given)


def sign_in(browser, token: str, to: str = "/"):
    return browser.post("/sign-in", {"token": token, "to": to})


@pytest.mark.parametrize("path", [*SCREEN_PATHS, "/nothing", "/?limit=x"])
def test_every_answer_forbids_what_is_not_ours(browser, path):
    found = browser.get(path)
    assert {name: found.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS


def test_a_refusal_forbids_it_too(browse, library):
    found = browse(library, concurrent=0).get("/")
    assert (found.status_code, {name: found.headers[name] for name in SECURITY_HEADERS}) == (
        429,
        SECURITY_HEADERS,
    )


@pytest.mark.parametrize("path", SCREEN_PATHS)
def test_no_page_has_script_or_style_of_its_own(browser, tags_of, path):
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
    assert all(each.startswith(("/static/", "data:,")) for each in loaded if each)


def test_what_pages_load_is_kept_for_ever_and_found_by_its_digest_only(browser):
    found = browser.get(static_address("page.js"))
    assert (found.status_code, found.headers["content-type"]) == (
        200,
        "text/javascript; charset=utf-8",
    )
    assert "immutable" in found.headers["cache-control"]
    assert browser.get("/static/000000000000/page.js").status_code == 404
    assert (
        browser.get(static_address("page.js").replace("page.js", "..%2fsite.py")).status_code == 404
    )


def test_the_first_page_is_small_and_four_requests(browser, tags_of):
    page = browser.get("/?q=sync", Accept_Encoding="gzip")
    tags = tags_of(page.text).tags
    loaded = [
        link
        for tag, attributes in tags
        if tag in {"script", "link"}
        and (link := attributes.get("src") or attributes["href"]).startswith("/")
    ]
    sizes = [
        len(gzip.compress(each))
        for each in (
            page.content,
            *(browser.get(each, Accept_Encoding="identity").content for each in loaded),
        )
    ]
    assert len(loaded) <= 3
    assert sum(sizes) <= 40_000


def test_another_site_reads_nothing(browser):
    for kind in ("cross-site", "same-site"):
        found = browser.ask("/ask.json?q=green+button", Sec_Fetch_Site=kind)
        assert (found.status_code, "green button" in found.text) == (403, False)
        assert browser.ask(static_address("page.js"), Sec_Fetch_Site=kind).status_code == 404
        assert browser.ask("/changes", Sec_Fetch_Site=kind).status_code == 404


def test_a_link_from_another_site_is_opened_by_a_click_here(browser, tags_of):
    found = browser.ask("/?q=sync", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")
    assert found.status_code == 403
    assert "/?q=sync" in tags_of(found.text).links()
    far = browser.ask("//evil.example/x", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")
    assert [link for link in tags_of(far.text).links() if "evil" in link] == []


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
def test_another_site_changes_nothing(browser, headers):
    for name, form in FORMS:
        assert browser.post(f"/{name}/{form}", {"id": "1"}, **headers).status_code == 403


def test_a_form_of_ours_is_known_by_its_origin_where_the_browser_says_nothing_else(
    library, browse, tokens
):
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


def test_an_unknown_host_is_refused(browser):
    assert browser.get("/", Host="rebound.example").status_code == 421


def test_strangers_are_led_to_where_one_signs_in_and_back(team):
    browser = team()
    led = browser.get("/?q=sync")
    assert (led.status_code, led.headers["location"]) == (303, "/sign-in?to=%2F%3Fq%3Dsync")
    assert 'value="/?q=sync"' in browser.get(led.headers["location"]).text
    assert browser.get("/ask.json?q=sync").status_code == 401
    assert browser.post("/review/decide", {"id": "1"}).status_code == 401
    assert browser.get("/changes").status_code == 401


def test_a_session_holds_no_token_and_ends(team, tokens):
    browser = team()
    token = tokens.with_name("bob").read_text()
    found = sign_in(browser, token, "/?q=sync")
    cookie = found.headers["set-cookie"]
    assert (found.status_code, found.headers["location"]) == (303, "/?q=sync")
    assert token not in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert browser.get("/?q=sync").status_code == 200
    browser.post("/sign-out", {})
    assert browser.get("/?q=sync").status_code == 303


def test_a_wrong_token_lets_nobody_in_and_many_are_told_to_wait(team, tokens):
    browser = team()
    statuses = [sign_in(browser, "ti_wrong").status_code for _ in range(MAX_FAILURES + 1)]
    assert browser.cookies == {}
    assert (set(statuses[:-1]), statuses[-1]) == ({401}, 429)


@pytest.mark.anyio
async def test_a_session_is_looked_up_again_and_ends_when_it_is_not_used():
    now, taken = [1000.0], {"good"}

    class Verifier:
        async def verify_token(self, token):
            from mcp.server.auth.provider import AccessToken

            return (
                AccessToken(token="", client_id="a", scopes=["notes"]) if token in taken else None
            )

    sessions = SessionStore(Verifier(), ("notes",), lambda: now[0])
    first, second = await sessions.sign_in("good"), await sessions.sign_in("good")
    assert first != second
    assert await sessions.sign_in("bad") is None
    now[0] += IDLE_SECONDS + 1
    assert await sessions.user(first) is None
    third = await sessions.sign_in("good")
    taken.clear()
    assert await sessions.user(third) is not None
    now[0] += CHECK_SECONDS + 1
    assert await sessions.user(third) is None


def test_the_key_opens_the_page_once_and_the_next_one_is_told_to_the_terminal(
    library, browse, plain_config
):
    told: list[str] = []
    key = OneTimeKey(told.append)
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
    other = replace(browser, cookies={})
    assert other.ask(f"/sign-in/{told[0]}", "HEAD").cookies == {}
    assert other.get(address).status_code == 401
    assert other.post("/sign-in", {"token": address.rpartition("/")[2]}).status_code == 401
    assert other.get(f"/sign-in/{told[0]}").status_code == 303
    assert browser.get("/mcp").status_code == 404


def test_two_pages_of_one_machine_do_not_share_a_cookie():
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
def test_one_goes_back_to_an_address_of_ours_only(target):
    assert same_site_address(target) == "/"


def test_no_template_marks_anything_safe():
    root = Path(__file__).parents[2] / "src" / "thumbindex" / "page"
    doubtful = ("|safe", "| safe", "autoescape", "<script>")
    wrong = [
        each.name
        for each in (root / "templates").glob("*.html")
        if any(word in each.read_text(encoding="utf-8") for word in doubtful)
    ]
    scripts = {name: body for name, body in static_files().items() if name.endswith(".js")}
    unsafe = [name for name, body in scripts.items() if b"innerHTML" in body or b"eval(" in body]
    assert (wrong, unsafe) == ([], [])
