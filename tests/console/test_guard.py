"""Attacks on the guard. For each there is a control: the same request without the attack works."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio
import pytest
from starlette.testclient import TestClient

from console.visits import (
    BEHIND_A_PROXY,
    HOST,
    SECRET,
    Visitor,
    make_pending,
    read_page,
    visit,
)
from handrail.console import (
    Console,
    ConsoleConfig,
    ConsoleError,
    HeaderIdentity,
    app,
)
from handrail.console import _guard as guard_module
from handrail.console._guard import HEADERS, MAX_BODY_BYTES, RequestGuard
from handrail.console._request import to_path
from handrail.console._store import Store
from handrail.net.cookies import sign
from handrail.net.forms import mask
from handrail.runs import JournalError, open_runs

REQUEST = f"/inbox/{to_path(make_pending('r1').id)}"
USED = 303


def is_answered(file: Path, run: str = "r1") -> bool:
    return open_runs(file).records().receipt(make_pending(run).id) is not None


ATTACKS: dict[str, dict[str, str | None]] = {
    "other origin": {"origin": "https://evil.example", "sec-fetch-site": "cross-site"},
    "other origin, forged site": {"origin": "https://evil.example"},
    "other port": {"origin": f"https://{HOST}:3000", "sec-fetch-site": "same-site"},
    "other port, forged origin": {"sec-fetch-site": "same-site"},
    "other scheme": {"origin": f"http://{HOST}"},
    "null origin": {"origin": "null"},
    "no origin": {"origin": None},
    "no site": {"sec-fetch-site": None},
    "typed address": {"sec-fetch-site": "none"},
    "rebinding": {"host": "evil.example", "origin": "https://evil.example"},
    "rebinding to a port": {"host": f"{HOST}:81", "origin": f"https://{HOST}:81"},
    "no secret": {"x-handrail-secret": ""},
    "forged secret": {"x-handrail-secret": "S" * 40},
    "json": {"content-type": "application/json"},
    "plain text": {"content-type": "text/plain"},
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_answer_from_elsewhere_is_refused(file: Path, attack: str) -> None:
    person = visit(file)
    form = {**person.form(REQUEST), "answer": "approve"}
    refused = person.post(REQUEST, form, **ATTACKS[attack])

    assert refused.status_code in (401, 403, 415), refused.text
    assert not is_answered(file)
    assert person.post(REQUEST, form).status_code == USED  # the control
    assert is_answered(file)


@pytest.mark.parametrize("attack", list(ATTACKS)[: list(ATTACKS).index("no secret")])
def test_without_its_check_each_of_these_attacks_would_succeed(
    file: Path, monkeypatch: pytest.MonkeyPatch, attack: str
) -> None:
    hosts = {HOST, f"{HOST}:81", "evil.example"}
    monkeypatch.setattr(RequestGuard, "_check_source", lambda *_: None)
    monkeypatch.setattr(RequestGuard, "_hosts", lambda *_: hosts)
    person = visit(file)
    form = {**person.form(REQUEST), "answer": "approve"}

    assert person.post(REQUEST, form, **ATTACKS[attack]).status_code == USED
    assert is_answered(file)


def test_a_form_belongs_to_one_person(file: Path) -> None:
    console = Console(BEHIND_A_PROXY, Store(str(file)))
    ana, ben = visit(file, console=console), visit(file, name="ben", console=console)
    form = {**ana.form(REQUEST), "answer": "approve"}
    tokens = {ana.form(REQUEST)["csrf"] for _ in range(3)}

    assert len(tokens) == 3  # masked anew for each page
    for token in ("", "x", "&", base64.urlsafe_b64encode(b"x" * 86).decode(), form["csrf"][:-8]):
        assert ana.post(REQUEST, {**form, "csrf": token}).status_code == 403
    assert ben.post(REQUEST, form).status_code == 403
    other = {**form, "csrf": ben.form(REQUEST)["csrf"]}
    assert ben.post(REQUEST, other).status_code == 409  # what ana saw is not what ben saw
    assert not is_answered(file)
    assert ana.post(REQUEST, {**form, "csrf": tokens.pop()}).status_code == USED


def test_sizes_and_shapes_are_limited(file: Path) -> None:
    person = visit(file)
    form = {**person.form(REQUEST), "answer": "deny"}

    assert person.post(REQUEST, {**form, "reason": "x" * MAX_BODY_BYTES}).status_code == 413
    many = {f"n{number}": "" for number in range(600)}
    assert person.post(REQUEST, {**form, **many}).status_code == 400
    assert person.get("/inbox", cookie="x" * 17_000).status_code == 431
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        found = person.client.request(method, REQUEST, headers=person.headers)
        assert found.status_code == 405
    bad = person.client.post(
        REQUEST,
        content=b"a=\xff",
        headers={
            **person.headers,
            "origin": person.origin,
            "sec-fetch-site": "same-origin",
            "content-type": "application/x-www-form-urlencoded",
        },
    )
    assert bad.status_code == 400
    assert not is_answered(file)
    assert person.post(REQUEST, form).status_code == USED


async def test_a_body_that_does_not_come_is_given_up(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_module, "BODY_SECONDS", 0.01)
    sent: list[Any] = []
    headers = {"host": HOST, "origin": f"https://{HOST}", "sec-fetch-site": "same-origin"}
    headers |= {"content-type": "application/x-www-form-urlencoded"}
    scope = {"type": "http", "method": "POST", "path": REQUEST, "query_string": b""}
    scope |= {"headers": [(key.encode(), one.encode()) for key, one in headers.items()]}

    async def never() -> Any:
        await anyio.sleep_forever()

    async def send(message: Any) -> None:
        sent.append(message)

    console = Console(BEHIND_A_PROXY, Store(str(file)))
    with anyio.fail_after(20):
        await console(scope, never, send)
        await console({**scope, "type": "websocket"}, never, send)

    assert sent[0]["status"] == 408
    assert [one["type"] for one in sent] == ["http.response.start", "http.response.body"]


@pytest.mark.parametrize("whole", [True, False])
async def test_a_body_can_come_in_parts_and_must_be_whole(file: Path, *, whole: bool) -> None:
    person, sent = visit(file), list[Any]()
    form = urlencode({**person.form(REQUEST), "answer": "deny"}).encode()
    parts = [form[:10], form[10:20], form[20:]]
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    last = {"type": "http.request"} if whole else {"type": "http.disconnect"}
    several = iter([*messages, last])
    headers = {**person.headers, "origin": person.origin, "sec-fetch-site": "same-origin"}
    headers |= {"content-type": "application/x-www-form-urlencoded"}
    scope = {"type": "http", "method": "POST", "path": REQUEST, "query_string": b""}
    scope |= {"headers": [(key.encode(), one.encode()) for key, one in headers.items()]}

    async def receive() -> Any:
        return next(several)

    async def send(message: Any) -> None:
        sent.append(message)

    await person.client.app(scope, receive, send)  # type: ignore[arg-type]

    assert sent[0]["status"] == (USED if whole else 400)
    assert is_answered(file) == whole


def test_every_answer_has_the_headers(file: Path) -> None:
    person = visit(file)
    page = person.get("/inbox")
    static = [one for one in read_page(page.text).addresses if "/static/" in one]
    paths = ["/inbox", "/runs", REQUEST, "/nothing", "/healthz", "/readyz", "/link", *static]
    for path in paths:
        found = person.get(path)
        for name, value in HEADERS.items():
            assert found.headers[name] == value, (path, name)
        assert "strict-transport-security" in found.headers
        assert "set-cookie" not in found.headers
        is_static = path.startswith("/static/")
        assert ("immutable" in found.headers["cache-control"]) == is_static
        assert is_static or found.headers["cache-control"] == "no-store"
        assert "content-encoding" not in found.headers
    assert person.get("/static/console.css").status_code == 404
    assert "unsafe" not in HEADERS["content-security-policy"]


ROUTES = {
    "/": "viewer",
    "/inbox": "viewer",
    REQUEST: "viewer",
    f"{REQUEST}?full=1": "viewer",
    f"{REQUEST}/more": "approver",
    "/runs": "viewer",
    "/runs/r1": "viewer",
    "/runs/r1?call=1": "viewer",
    "/audit": "auditor",
    "/audit/export.jsonl": "auditor",
    "/audit/export.csv": "auditor",
    "/audit/chain/r1": "auditor",
    "/rules": "viewer",
    "/rules?run=r1&call=1": "viewer",
}
ROLES = {
    "viewers": {"viewer"},
    "approvers": {"viewer", "approver"},
    "operators": {"viewer"},
    "auditors": {"viewer", "auditor"},
    "admins": {"viewer", "approver", "auditor"},
    "none": set[str](),
}


@pytest.mark.parametrize("group", ROLES)
def test_each_route_needs_its_role(file: Path, group: str) -> None:
    person = visit(file, group)
    for path, role in ROUTES.items():
        expected = (200, 303) if role in ROLES[group] else (404,)
        assert person.get(path).status_code in expected, path
    form = {"csrf": mask(sign(BEHIND_A_PROXY.key, "form", "proxy|ana"))}
    for path in (REQUEST, "/inbox/deny"):
        found = person.post(path, {**form, "answer": "approve", "pending": REQUEST})
        assert found.status_code != USED
    assert person.post("/rules/replay", form).status_code == 404  # this console has no rules
    verified = person.post("/audit/verify", form).status_code
    assert verified == (USED if "auditor" in ROLES[group] else 404)
    assert not is_answered(file)


def test_what_others_have_is_as_if_it_did_not_exist(file: Path) -> None:
    others, own = visit(file, "others"), visit(file)
    for path in (REQUEST, f"{REQUEST}?full=1", f"{REQUEST}/more", "/runs/r1", "/runs/r1?call=1"):
        unknown = path.replace(REQUEST, "/inbox/~bm9uZQ").replace("r1", "none")
        found, missing = others.get(path), others.get(unknown)
        assert (found.status_code, found.text) == (404, missing.text), path
        assert own.get(path).status_code == 200  # the control
    for path in ("/inbox", "/runs", "/audit", "/audit/export.jsonl", "/audit/export.csv"):
        text = re.sub(r"[\w-]{20,}", "", others.get(path).text)  # without keys and digests
        assert ("r1" in text.replace("r1 ", ""), "r2" in text) == (False, True)
    form = {**others.form(f"/inbox/{to_path(make_pending('r2').id)}"), "answer": "approve"}
    assert others.post(REQUEST, form).status_code == 404
    several = {"csrf": form["csrf"], "pending": to_path(make_pending("r1").id)}
    assert "Nothing was denied." in others.post("/inbox/deny", several).text
    assert not is_answered(file)


def test_a_local_console_signs_in_by_a_link_that_works_once(file: Path) -> None:
    console = Console(ConsoleConfig(), Store(str(file)))
    client = TestClient(console, base_url="http://127.0.0.1:8765")
    me = Visitor(client, {}, origin="http://127.0.0.1:8765")
    link = console.make_link()
    code = link.partition("code=")[2]
    previews = [me.get(link) for _ in range(3)]  # a preview uses no code
    own = me.post("/link", {"code": code})
    cookie = own.headers["set-cookie"]
    base = own.headers["location"].removesuffix("/inbox")

    assert [found.status_code for found in previews] == [200] * 3
    assert base not in previews[0].text  # who has no code does not learn the path of the cookie
    assert own.status_code == USED
    assert f"Path={base}/; HttpOnly; SameSite=Strict" in cookie
    assert len(base.removeprefix("/c/")) >= 22  # 128 random bits
    again = Visitor(TestClient(console, base_url="http://127.0.0.1:8765"), {}, origin=me.origin)
    assert again.post("/link", {"code": code}).status_code == 401
    assert "used or has expired" in again.get(f"{base}/inbox").text
    assert again.get("/inbox").status_code == 404
    me.base = base
    assert me.get("/inbox").status_code == 200
    assert me.answer(REQUEST).status_code == USED
    assert is_answered(file)
    outside = Visitor(client, {}, origin="http://evil.example")
    assert outside.post("/link", {"code": console.make_link()}).status_code == 403
    for host in ("evil.example", "127.0.0.1:81", "127.0.0.1", "[::1]:8765", "localhost"):
        assert me.get("/inbox", host=host).status_code == 403
    assert me.get("/inbox", host="localhost:8765").status_code == 200


def test_a_console_behind_a_proxy_has_no_links(file: Path) -> None:
    console = Console(BEHIND_A_PROXY, Store(str(file)))
    person = visit(file, console=console)

    assert person.get("/link?code=x").status_code == 404
    assert person.post("/link", {"code": "x"}).status_code == 404
    assert "did not say who you are" in person.get("/inbox", **{"x-handrail-secret": ""}).text
    with pytest.raises(ConsoleError, match="Only a local console has links"):
        console.make_link()
    assert [
        Console(replace(BEHIND_A_PROXY, identity=one), Store(str(file))).needs_socket
        for one in (HeaderIdentity(), HeaderIdentity(secret=SECRET))
    ] == [True, False]
    with pytest.raises(ConsoleError, match="`hosts` must name"):
        Console(ConsoleConfig(identity=HeaderIdentity(secret=SECRET)), Store(str(file)))


@pytest.mark.parametrize("name", ["X-Forwarded-User", "X-Forwarded-Groups", "X-Handrail-Secret"])
def test_what_a_proxy_says_twice_is_refused(file: Path, name: str) -> None:
    person = visit(file)
    sent = list(person.headers.items())
    again = [*sent, (name, person.headers[name.lower()])]

    assert person.client.get("/inbox", headers=sent).status_code == 200  # the control
    assert person.client.get("/inbox", headers=again).status_code == 401


def test_a_console_can_be_below_a_path(file: Path) -> None:
    console = Console(replace(BEHIND_A_PROXY, base="/h"), Store(str(file)))
    person = replace(visit(file, console=console), base="/h")

    assert person.get("/inbox").status_code == 200
    assert person.answer(REQUEST).headers["location"] == f"/h{REQUEST}"
    style = read_page(person.get("/inbox").text).addresses[0]
    assert style.startswith("/h/static/")
    assert person.client.get(style, headers=person.headers).status_code == 200
    assert replace(person, base="").get("/inbox").status_code == 404


def test_a_fault_has_an_id_and_no_traceback(
    file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(BEHIND_A_PROXY, Store(str(file)))
    person = visit(file, console=console)
    form = {**person.form(REQUEST), "answer": "approve"}
    monkeypatch.setattr("handrail.console._inbox.make_page", None)
    found, answered = person.get(REQUEST), person.post(REQUEST, form)

    assert (found.status_code, answered.status_code) == (500, 500)
    assert "Nothing was approved or denied." in found.text
    assert "not known whether your answer was used" in answered.text
    assert "Traceback" not in found.text
    faults = [word for word in read_page(found.text).text.split() if word.startswith("e-")]
    assert faults[0].rstrip(".") in caplog.text


def test_runs_that_cannot_be_read_are_said_so(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    file.write_text("not a database, but long enough to be looked at", encoding="utf-8")
    file.chmod(0o600)
    found = visit(file).get("/inbox")

    assert (found.status_code, visit(file).get("/readyz").status_code) == (503, 503)
    assert "Cannot read the runs" in found.text


def test_an_answer_that_fails_is_not_said_to_be_unused(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person, given = visit(file), list[str]()
    form = {"csrf": person.form(REQUEST)["csrf"], "pending": to_path("r1~1~c1~0")}

    async def fail(_runs: object, pending_id: str, *_args: Any, **_options: Any) -> Any:
        given.append(pending_id)
        raise JournalError("database is locked")

    monkeypatch.setattr("handrail.runs.RunStore.answer", fail)
    found = person.post("/inbox/deny", form)

    assert (found.status_code, len(given)) == (503, 1)
    assert "Nothing was approved or denied" not in found.text
    assert "not known whether your answer was used. Check the inbox" in found.text


def test_the_application_is_made_by_one_function(file: Path) -> None:
    with TestClient(app(runs=str(file)), base_url="http://127.0.0.1:8765") as client:
        assert client.get("/healthz").text == "ok\n"
        assert client.get("/readyz").text == "ok\n"
    assert app(BEHIND_A_PROXY, runs=str(file)).config is BEHIND_A_PROXY
