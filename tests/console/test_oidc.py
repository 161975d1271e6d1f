"""People sign in at an OpenID Connect provider: a real one, and the real console, over HTTP."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import re
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse

from console.browser import browsing, find_chromium, serving
from console.provider import CLIENT, SECRET, Provider, providing
from console.visits import GROUPS, make_pending, park, read_page
from handrail.console import (
    Console,
    ConsoleConfig,
    ConsoleError,
    OidcIdentity,
    read_config,
)
from handrail.console._store import Store
from handrail.runs import open_runs
from handrail.runs.records import to_path

REQUEST = f"/inbox/{to_path(make_pending('r1').id)}"
TYPED = {"sec-fetch-site": "none"}
HOUR = 3600.0
TLS = httpx2.create_ssl_context()
"""Making one takes longer than a sign-in."""


class Stage:
    """A provider, a console, and the time of the console."""

    def __init__(self, provider: Provider, folder: Path) -> None:
        self.provider, self.file = provider, folder / "journal.db"
        self.ahead, self.url = 0.0, ""
        self.visitors: list[Visitor] = []
        journal = open_runs(self.file)
        park(journal, make_pending("r1"))
        journal.close()

    def make(self, host: str, **settings: Any) -> Console:
        identity = OidcIdentity(issuer=self.provider.issuer, client_id=CLIENT, client_secret=SECRET)
        config = ConsoleConfig(identity=identity, hosts=(host,), groups=GROUPS)
        made = replace(config, **settings)
        return Console(made, Store(str(self.file)), clock=lambda: time.time() + self.ahead)

    def browse(self) -> Visitor:
        self.visitors.append(Visitor(self))
        return self.visitors[-1]


class Visitor:
    """A browser without cookies, which goes where it is sent one step at a time."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.client = stage, httpx2.Client(verify=TLS)

    def get(self, url: str, **headers: str) -> httpx2.Response:
        whole = url if url.startswith("http") else self.stage.url + url
        return self.client.get(whole, headers=headers)

    def post(self, path: str, form: dict[str, str]) -> httpx2.Response:
        sent = {"origin": self.stage.url, "sec-fetch-site": "same-origin"}
        return self.client.post(self.stage.url + path, data=form, headers=sent)

    def begin(self, target: str = "/inbox") -> str:
        """Press the button, sign in at the provider, and return the address of the way back."""
        params = str(httpx2.QueryParams({"next": target}))
        gone = self.client.get(f"{self.stage.url}/login?{params}", headers=TYPED)
        assert gone.status_code == 303
        return self.get(gone.headers["location"]).headers["location"]

    def sign_in(self, target: str = "/inbox") -> httpx2.Response:
        return self.get(self.begin(target))

    @property
    def is_known(self) -> bool:
        return self.get("/inbox").status_code != 401


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Generator[Stage]:
    with providing() as provider:
        stage = Stage(provider, tmp_path_factory.mktemp("oidc"))
        with serving(stage.make) as (stage.url, _):
            yield stage


@pytest.fixture
def stage(played: Stage) -> Generator[Stage]:
    played.provider.reset()
    played.ahead = 0.0
    yield played
    while played.visitors:
        played.visitors.pop().client.close()


def test_a_person_signs_in_answers_and_signs_out(stage: Stage) -> None:
    ana = stage.browse()
    page = ana.get(f"{REQUEST}?full=1")
    [link] = re.findall(r'href="([^"]+/login[^"]*|/login[^"]*)"', page.text)
    gone = ana.get(unescape(link), **{"sec-fetch-site": "same-origin"})
    back = ana.get(ana.get(gone.headers["location"]).headers["location"])
    form = read_page(ana.get(REQUEST).text).fields
    answered = ana.post(REQUEST, {**form, "answer": "approve"})

    assert (page.status_code, "Not signed in" in page.text) == (401, True)
    assert (back.status_code, back.headers["location"]) == (303, f"{stage.url}{REQUEST}?full=1")
    assert (answered.status_code, answered.headers["location"]) == (303, REQUEST)
    receipt = ana.get(REQUEST).text
    assert "ana@example.com" in receipt
    assert "viewer" not in receipt.split("</header>")[0]
    with closing(open_runs(str(stage.file)).records()) as records:
        given = records.request(make_pending("r1").id)
        assert given is not None
        assert given.answer is not None
        assert given.answer.by == f"{stage.provider.issuer}|7"
    token = read_page(receipt).fields["csrf"]
    left = ana.post("/logout", {"csrf": token})
    assert (left.status_code, left.headers["location"]) == (303, "/")
    assert not ana.is_known


def test_a_session_has_a_cookie_that_scripts_and_forms_of_others_do_not_get(stage: Stage) -> None:
    ana = stage.browse()
    back = ana.sign_in()
    session, login = back.headers.get_list("set-cookie")

    assert re.fullmatch(
        r"handrail-session=[\w=-]+\.[\w-]+; Path=/; HttpOnly; SameSite=Lax", session
    )
    assert login == "handrail-login=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0"
    assert list(ana.client.cookies) == ["handrail-session"]
    assert "code" not in str(ana.get("/inbox").url)


def test_with_https_cookies_are_tied_to_the_host(stage: Stage) -> None:
    found = list[str]()
    for base in ("", "/h"):
        with serving(lambda host, base=base: stage.make(host, https=True, base=base)) as (url, _):
            gone = httpx2.get(f"{url}{base}/login", headers=TYPED, verify=TLS)
            [cookie] = gone.headers.get_list("set-cookie")
            found.append(re.sub(r"=[\w=-]+\.[\w-]+;", "=...;", cookie, count=1))
            sent = parse_qs(urlsplit(gone.headers["location"]).query)["redirect_uri"]
            assert sent == [f"{url.replace('http:', 'https:')}{base}/callback"]

    assert found == [
        "__Host-handrail-login=...; Path=/; HttpOnly; SameSite=Lax; Secure",
        "__Secure-handrail-login=...; Path=/h/; HttpOnly; SameSite=Lax; Secure",
    ]


def test_a_forged_state_signs_no_one_in(stage: Stage) -> None:
    ana = stage.browse()
    back = httpx2.URL(ana.begin())
    for state in ("", "x", back.params["state"][:-1], f"{back.params['state']}x"):
        assert ana.get(str(back.copy_set_param("state", state))).status_code == 401
    assert ana.get(str(back.copy_remove_param("state"))).status_code == 401
    assert not ana.is_known

    assert (ana.get(str(back)).status_code, ana.is_known) == (303, True)


def test_a_way_back_works_only_in_the_browser_that_began(stage: Stage) -> None:
    attacker, victim = stage.browse(), stage.browse()
    back = attacker.begin()
    assert victim.get(back).status_code == 401
    stage.provider.knows_pkce, stage.provider.takes_codes_again = False, True
    code = httpx2.URL(back).params["code"]
    for params in (f"code={code}", f"code={code}&state="):
        assert victim.get(f"/callback?{params}").status_code == 401
    victim.begin()  # the victim has begun, too: with another state
    assert victim.get(back).status_code == 401
    assert not victim.is_known

    assert (attacker.get(back).status_code, attacker.is_known) == (303, True)


def test_a_code_of_another_browser_is_of_no_use(stage: Stage) -> None:
    attacker, victim = stage.browse(), stage.browse()
    foreign, own = httpx2.URL(attacker.begin()), httpx2.URL(victim.begin())
    stage.provider.takes_codes_again = True
    injected = own.copy_set_param("code", foreign.params["code"])
    for stage.provider.knows_pkce in (True, False):  # without it, the nonce is another one
        assert victim.get(str(injected)).status_code == 401

    assert victim.get(str(own)).status_code == 303


def test_an_answer_of_the_provider_works_once(stage: Stage) -> None:
    stage.provider.takes_codes_again = True
    ana = stage.browse()
    back = ana.begin()
    kept = dict(ana.client.cookies)
    thief = stage.browse()
    thief.client.cookies.update(kept)
    assert ana.get(back).status_code == 303
    assert ana.get(back).status_code == 401  # its cookie is gone
    assert (thief.get(back).status_code, thief.is_known) == (401, False)

    again = stage.browse()  # a provider that takes a code again, and another sign-in
    assert again.sign_in().status_code == 303


def test_someone_who_takes_too_long_signs_in_again(stage: Stage) -> None:
    ana = stage.browse()
    back = ana.begin()
    stage.ahead = 600
    assert ana.get(back).status_code == 401
    stage.ahead = 290

    assert ana.get(back).status_code == 303


def alg_none(claims: dict[str, Any]) -> str:
    return jwt.encode(claims, None, algorithm="none")


def with_public_key(provider: Provider, claims: dict[str, Any]) -> str:
    """Sign with HMAC, with what everyone knows as the key."""
    pem = provider.key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    head, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "HS256", "kid": provider.kid}, claims)
    )
    mac = hmac.digest(pem, f"{head}.{body}".encode(), hashlib.sha256)
    return f"{head}.{body}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


CLAIMS: dict[str, dict[str, Any]] = {
    "nonce": {"nonce": "another"},
    "no nonce": {"nonce": None},
    "audience": {"aud": "another"},
    "audience of someone who got it from us": {"aud": "another", "azp": CLIENT},
    "several audiences": {"aud": [CLIENT, "another"]},
    "meant for another": {"azp": "another"},
    "issuer": {"iss": "https://another.example"},
    "expired": {"exp": int(time.time()) - 60},
    "never expires": {"exp": None},
    "not a time": {"exp": "soon"},
    "from the future": {"iat": int(time.time()) + 600},
    "no subject": {"sub": None},
    "empty subject": {"sub": ""},
    "subject is a number": {"sub": 7},
    "access token": {"at_hash": "x" * 22},
}


def test_a_token_with_a_wrong_claim_signs_no_one_in(stage: Stage) -> None:
    ana = stage.browse()
    for name, wrong in CLAIMS.items():
        stage.provider.change = lambda claims, wrong=wrong: {
            key: value for key, value in {**claims, **wrong}.items() if value is not None
        }
        refused = ana.sign_in()
        assert (refused.status_code, ana.is_known) == (401, False), name
        assert "You are not signed in" in refused.text
    stage.provider.change = lambda claims: claims

    assert (ana.sign_in().status_code, ana.is_known) == (303, True)


def test_a_token_with_a_wrong_signature_signs_no_one_in(stage: Stage) -> None:
    provider = stage.provider
    foreign = ec.generate_private_key(ec.SECP256R1())
    for sign in (
        alg_none,
        lambda claims: with_public_key(provider, claims),
        lambda claims: provider.sign_with(claims, foreign),
        lambda claims: provider.sign_with(claims, foreign, kid="another"),
        lambda claims: provider.sign_with(claims, SECRET + SECRET, alg="HS256"),
        lambda claims: provider.sign_with(claims)[:-4] + "AAAA",
        lambda _: "",
        lambda _: "a.b.c",
    ):
        provider.sign = sign
        ana = stage.browse()
        assert (ana.sign_in().status_code, ana.is_known) == (401, False)
    provider.sign = provider.sign_with

    assert (ana.sign_in().status_code, ana.is_known) == (303, True)


def test_keys_can_be_replaced(stage: Stage) -> None:
    assert stage.browse().sign_in().status_code == 303
    old = stage.provider.key, stage.provider.kid
    stage.provider.rotate()
    assert stage.browse().sign_in().status_code == 303
    stage.provider.sign = lambda claims: stage.provider.sign_with(claims, old[0], kid=old[1])

    assert stage.browse().sign_in().status_code == 401


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "@evil.example",
        ".evil.example",
        "/x\r\nset-cookie: a=b",
        "/\u202e",
        "javascript:alert(1)",
        "",
        "/" + "x" * 2_000,
    ],
)
def test_after_the_sign_in_no_one_is_sent_to_another_host(stage: Stage, target: str) -> None:
    back = stage.browse().sign_in(target)
    place = urlsplit(back.headers["location"])

    assert (back.status_code, f"{place.scheme}://{place.netloc}") == (303, stage.url)
    assert len(back.headers.get_list("set-cookie")) == 2
    assert len(back.headers["location"]) < 200


def test_after_the_sign_in_a_person_is_where_they_wanted_to_go(stage: Stage) -> None:
    back = stage.browse().sign_in("/runs?q=a%20b&status=")

    assert back.headers["location"] == f"{stage.url}/runs?q=a%20b&status="


def test_pages_show_nothing_of_what_a_provider_says(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    hostile = "<script>alert(1)</script>\n\x1b[31m\u202e"
    stage.provider.refusal = {"error": hostile, "error_description": hostile}
    with caplog.at_level(logging.WARNING, "handrail.console"):
        refused = [stage.browse().sign_in()]
        stage.provider.refusal = {}
        stage.provider.sign = lambda claims: stage.provider.sign_with(claims, kid=hostile)
        refused.append(stage.browse().sign_in())

    assert [page.status_code for page in refused] == [401, 401]
    assert [page.text for page in refused if "alert" in page.text] == []
    first, second = caplog.messages
    assert all(text.isascii() and text.isprintable() for text in (first, second))
    assert "the provider sent no code, but '<script>alert(1)</script>" in first
    assert "the ID token is not valid: invalid_key_id" in second


def test_a_name_from_the_provider_is_text(stage: Stage) -> None:
    stage.provider.person["email"] = "<script>alert(1)</script>" + "x" * 3_000
    ana = stage.browse()
    ana.sign_in()
    text = ana.get("/inbox").text

    assert "&lt;script&gt;alert(1)" in text
    assert len(ana.client.cookies["handrail-session"]) < 1_000
    assert "<script>alert" not in text


@pytest.mark.parametrize("groups", [["unknown"], [], None, "unknown", 7, [{"approvers": 1}]])
def test_a_person_without_a_known_group_has_no_rights(stage: Stage, groups: Any) -> None:
    stage.provider.person["groups"] = groups
    ana = stage.browse()
    assert ana.sign_in().status_code == 303
    for path in ("/inbox", REQUEST, "/runs", "/audit", "/fleet", "/rules"):
        assert ana.get(path).status_code == 404
    stage.provider.person["groups"] = "approvers"
    ana.sign_in()

    assert [ana.get(path).status_code for path in ("/inbox", "/audit")] == [200, 404]


def test_a_session_ends_after_twelve_hours(stage: Stage) -> None:
    ana = stage.browse()
    ana.sign_in()
    stage.ahead = 12 * HOUR - 60
    assert ana.is_known
    stage.ahead = 12 * HOUR + 60
    assert not ana.is_known


def test_a_session_is_signed_and_each_cookie_has_its_purpose(stage: Stage) -> None:
    ana = stage.browse()
    ana.begin()
    login = ana.client.cookies["handrail-login"]
    ana.sign_in()
    session = ana.client.cookies["handrail-session"]
    body, _, mac = session.rpartition(".")
    texts = json.loads(base64.urlsafe_b64decode(body))
    more = base64.urlsafe_b64encode(json.dumps([*texts, "admins"]).encode()).decode()
    assert texts[1] == stage.provider.issuer
    for cookie in (f"{more}.{mac}", login, f"{body}.", body, "", "x"):
        thief = stage.browse()
        thief.client.cookies["handrail-session"] = cookie
        assert not thief.is_known
    with serving(stage.make) as (other, _):  # it has another key
        assert (
            httpx2.get(
                f"{other}/inbox", cookies={"handrail-session": session}, verify=TLS
            ).status_code
            == 401
        )
    assert ana.is_known


def test_a_session_of_another_issuer_does_not_count(stage: Stage) -> None:
    key = b"k" * 32
    whole = stage.url
    ana = stage.browse()
    with serving(lambda host: stage.make(host, key=key)) as (stage.url, _):
        ana.sign_in()
        assert ana.is_known
    moved = OidcIdentity(issuer="https://other.example", client_id=CLIENT)
    with serving(lambda host: stage.make(host, key=key, identity=moved)) as (stage.url, _):
        assert not ana.is_known
    with serving(lambda host: stage.make(host, key=key)) as (stage.url, _):
        assert ana.is_known  # after a restart with the same key
    stage.url = whole


def test_a_page_of_another_site_cannot_begin_a_sign_in(stage: Stage) -> None:
    for sent in ({}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}):
        refused = stage.browse().get("/login", **sent)
        assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)

    assert stage.browse().get("/login", **TYPED).status_code == 303


def test_another_host_is_refused_before_anything_else(stage: Stage) -> None:
    ana = stage.browse()
    back = ana.begin()
    asked = len(stage.provider.asked)
    for path in ("/login", back.removeprefix(stage.url)):
        assert ana.get(path, host="evil.example", **TYPED).status_code == 403
    assert len(stage.provider.asked) == asked

    assert ana.get(back).status_code == 303


def test_only_a_form_of_the_session_signs_out(stage: Stage) -> None:
    ana = stage.browse()
    ana.sign_in()
    assert ana.get("/logout").status_code == 405
    assert ana.post("/logout", {"csrf": "x"}).status_code == 403
    ben = stage.browse()
    ben.sign_in()
    foreign = read_page(ben.get("/inbox").text).fields["csrf"]
    assert ana.post("/logout", {"csrf": foreign}).status_code == 403

    assert ana.is_known


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://another.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "http://evil.example"},
        {"jwks_uri": None},
    ],
)
def test_a_provider_that_says_something_else_is_not_used(
    stage: Stage, metadata: dict[str, Any]
) -> None:
    stage.provider.metadata = metadata
    with serving(stage.make) as (url, _):
        refused = httpx2.get(f"{url}/login", headers=TYPED, verify=TLS)
        assert (refused.status_code, "set-cookie" in refused.headers) == (401, False)
        stage.provider.metadata = {}
        assert httpx2.get(f"{url}/login", headers=TYPED, verify=TLS).status_code == 303


def test_what_a_provider_says_about_itself_is_kept_for_an_hour(stage: Stage) -> None:
    with serving(stage.make) as (url, _):
        for stage.ahead in (0.0, HOUR - 60, HOUR + 60):
            assert httpx2.get(f"{url}/login", headers=TYPED, verify=TLS).status_code == 303
    assert stage.provider.asked == ["/.well-known/openid-configuration"] * 2


@pytest.mark.parametrize(
    "answer",
    [
        PlainTextResponse("not JSON"),
        JSONResponse([]),
        JSONResponse({}),
        JSONResponse({"id_token": 7}),
        JSONResponse({"error": "invalid_grant"}, 400),
        RedirectResponse("/elsewhere", 307),
    ],
)
def test_an_answer_of_the_provider_without_a_token_signs_no_one_in(
    stage: Stage, answer: Any
) -> None:
    stage.provider.broken = answer
    ana = stage.browse()
    assert (ana.sign_in().status_code, ana.is_known) == (401, False)
    stage.provider.broken = None

    assert ana.sign_in().status_code == 303


def test_an_answer_of_the_provider_has_at_most_256_kilobytes(stage: Stage) -> None:
    ana = stage.browse()
    stage.provider.more = {"more": "x" * 256 * 1024}
    assert (ana.sign_in().status_code, ana.is_known) == (401, False)
    stage.provider.more = {"more": "x" * 255 * 1024}

    assert ana.sign_in().status_code == 303


def test_a_provider_that_is_not_there_is_a_failed_sign_in(stage: Stage) -> None:
    gone = OidcIdentity(issuer="http://127.0.0.1:1", client_id=CLIENT)
    with serving(lambda host: stage.make(host, identity=gone)) as (url, _):
        refused = httpx2.get(f"{url}/login", headers=TYPED, verify=TLS)

    assert (refused.status_code, "You are not signed in" in refused.text) == (401, True)


def test_an_answer_that_names_another_issuer_is_refused(stage: Stage) -> None:
    ana = stage.browse()
    back = httpx2.URL(ana.begin())
    mixed = back.copy_add_param("iss", "https://another.example")
    assert ana.get(str(mixed)).status_code == 401

    assert ana.get(str(back.copy_add_param("iss", stage.provider.issuer))).status_code == 303


@pytest.mark.parametrize("way", ["post", "public"])
def test_a_client_proves_itself_as_the_provider_wants(stage: Stage, way: str) -> None:
    identity = OidcIdentity(issuer=stage.provider.issuer, client_id=CLIENT, client_secret=SECRET)
    if way == "post":
        stage.provider.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    else:
        stage.provider.public, identity = True, replace(identity, client_secret="")
    usual, ana = stage.url, stage.browse()
    with serving(lambda host: stage.make(host, identity=identity)) as (stage.url, _):
        assert (ana.sign_in().status_code, ana.is_known) == (303, True)
    stage.url = usual


def test_a_request_without_a_session_has_no_other_headers(stage: Stage) -> None:
    page = stage.browse().get("/inbox")

    assert "form-action 'self';" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    assert "set-cookie" not in page.headers


def test_settings_are_read_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLIENT_SECRET", "s3cret")
    file = tmp_path / "console.toml"
    text = (
        'hosts = ["c.example"]\nhttps = true\n[oidc]\nissuer = "https://sso.example"\n'
        'client_id = "console"\nclient_secret_env = "CLIENT_SECRET"\n'
        'groups = "roles"\nscopes = ["openid", "profile"]\n'
    )
    file.write_text(text, encoding="utf-8")
    config = read_config(file)

    assert config.identity == OidcIdentity(
        issuer="https://sso.example",
        client_id="console",
        client_secret="s3cret",  # noqa: S106  of a test
        groups="roles",
        scopes=("openid", "profile"),
    )
    assert "s3cret" not in repr(config)
    for more, message in (
        ('[proxy]\nheader = "X"\n', "not by both"),
        ("other = 1\n", "other"),
    ):
        file.write_text(text + more, encoding="utf-8")
        with pytest.raises(ConsoleError, match=message):
            read_config(file)
    file.write_text(text.replace("https = true", ""), encoding="utf-8")
    with pytest.raises(ConsoleError, match="OIDC needs `https = true`"):
        read_config(file)


@pytest.mark.parametrize(
    "issuer", ["http://sso.example", "sso.example", "http://127.0.0.1.evil.example"]
)
def test_an_issuer_without_tls_is_an_error_at_the_start(tmp_path: Path, issuer: str) -> None:
    identity = OidcIdentity(issuer=issuer, client_id=CLIENT)
    config = ConsoleConfig(identity=identity, hosts=("c.example",), https=True)
    with pytest.raises(ConsoleError, match="is not an address of a provider"):
        Console(config, Store(str(tmp_path / "journal.db")))


def test_without_authlib_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "handrail.net.sign_in", raising=False)
    monkeypatch.delitem(sys.modules, "handrail.net._oidc", raising=False)
    monkeypatch.setitem(sys.modules, "authlib", None)
    monkeypatch.setitem(sys.modules, "authlib.oauth2.client", None)
    identity = OidcIdentity(issuer="https://sso.example", client_id=CLIENT)
    config = ConsoleConfig(identity=identity, hosts=("c.example",), https=True)
    with pytest.raises(
        ConsoleError, match=r"needs authlib.*pip install 'handrail\[console-oidc\]'"
    ):
        Console(config, Store(str(tmp_path / "journal.db")))


def test_without_oidc_nothing_of_authlib_is_loaded() -> None:
    program = (
        "import sys\nfrom handrail.console import ConsoleConfig, HeaderIdentity, OidcIdentity, app\n"
        "app(ConsoleConfig(), runs='a.db')\n"
        "app(ConsoleConfig(identity=HeaderIdentity(), hosts=('a',)), runs='a.db')\n"
        "def loaded():\n"
        "    packages = ('authlib', 'joserfc', 'httpx2', 'cryptography')\n"
        "    return [one for one in packages if one in sys.modules]\n"
        "print(loaded())\n"
        "oidc = OidcIdentity(issuer='https://a.example', client_id='c')\n"
        "app(ConsoleConfig(identity=oidc, hosts=('a',), https=True), runs='a.db')\n"
        "print(loaded())"
    )
    done = subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, "-c", program], check=True, capture_output=True, encoding="utf-8"
    )

    assert done.stdout.splitlines() == ["[]", "['authlib', 'joserfc', 'httpx2', 'cryptography']"]


def test_a_real_browser_signs_in_and_out(stage: Stage) -> None:
    if find_chromium() is None:
        pytest.skip("needs Chromium")
    with browsing() as browser:
        browser.open(f"{stage.url}{REQUEST}")
        first = browser.evaluate("document.querySelector('h1').textContent")
        browser.press("a.btn")
        address = browser.address
        who = browser.evaluate("document.querySelector('.who b').textContent")
        scripts = browser.evaluate("document.cookie")
        browser.press(".who button")
        last = browser.evaluate("document.querySelector('h1').textContent")
        complaints = [one for one in browser.complaints if "401" not in one]

    assert (first, last) == ("Not signed in", "Not signed in")
    assert (address, who, scripts) == (f"{stage.url}{REQUEST}", "ana@example.com", "")
    assert complaints == []
