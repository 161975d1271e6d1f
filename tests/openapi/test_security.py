"""What no argument, answer or document can do: leave its path, its host, or take a secret along."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import anyio
import httpx2
import pytest

from handrail import (
    DESTROY,
    READ,
    Access,
    Allow,
    Args,
    Call,
    DefinitionError,
    Deny,
    Executor,
    FailureKind,
    Toolset,
)
from handrail.net import Guard
from handrail.openapi import guarded_client, tools
from handrail.policy import Rulebook
from openapi.service import Answer, Service, call, document, on_loopback, parameter, sent
from unframed import UNFRAMED

pytestmark = pytest.mark.anyio
FILES = document("/files/{name}", "delete", parameters=[parameter("name", "path", required=True)])
DOTS = {
    "plain": "../admin",
    "in the middle": "a/../../admin",
    "a single segment": "..",
    "one dot": ".",
    "backslash": "..\\admin",
    "encoded": "%2e%2e%2fadmin",
    "encoded dots": "%2E%2E/admin",
    "encoded slash": "..%2fadmin",
    "encoded backslash": "..%5cadmin",
    "encoded twice": "%252e%252e%252fadmin",
    "encoded three times": "%25252e%25252e%25252fadmin",
    "with a matrix": "..;/admin",
    "encoded endlessly": quote(quote(quote(quote(quote(quote(quote(quote("%2e")))))))) + "%252e",
    "null": "a%00",
    "line break": "a\nb",
    "empty": "",
}


@pytest.mark.parametrize("name", DOTS.values(), ids=list(DOTS))
async def test_an_argument_cannot_lead_to_another_path(name: str) -> None:
    service = Service()

    result = await call(tools(FILES, service.client), {"name": name})

    assert result.failure is not None
    assert result.failure.kind in (FailureKind.DENIED, FailureKind.FAILED)
    assert "Not sent" in result.text
    assert service.received == []


async def test_the_control_of_the_paths_sends_them() -> None:
    """A naive client leaves the folder: the vectors above are real."""
    service = Service()
    await service.client.delete("https://api.test/v1/files/" + DOTS["plain"])

    assert service.received[0].target == "/v1/admin"


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("a/b", "a%2Fb"),
        ("a.b", "a.b"),
        ("...", None),
        ("..a", "..a"),
        ("100%", "100%25"),
        ("a?b#c&d=e", "a%3Fb%23c%26d%3De"),
        ("é", "%C3%A9"),
        ("@evil.test", "%40evil.test"),
    ],
)
async def test_other_characters_are_escaped(name: str, target: str | None) -> None:
    if target is None:
        service = Service()
        result = await call(tools(FILES, service.client), {"name": name})
        assert (result.failure is not None, service.received) == (True, [])
        return
    assert (await sent(FILES, {"name": name})).target == f"/v1/files/{target}"


async def test_two_arguments_cannot_make_dots_together() -> None:
    given = document(
        "/a/{p}{q}", parameters=[parameter("p", "path"), parameter("q", "path", style="label")]
    )
    service = Service()

    result = await call(tools(given, service.client), {"p": "x", "q": "/../y"})

    assert result.text == "Not sent: an argument would lead to another path ('.' or '..')."
    assert service.received == []


REDIRECTS = {
    "another host": "https://evil.test/v1/files/a",
    "no scheme": "//evil.test/v1/files/a",
    "another port": "https://api.test:8443/v1/files/a",
    "another path": "/v1/admin",
    "dots": "/v1/files/../admin",
    "a user": "https://api.test@evil.test/v1/files/a",
    "less safe": "http://api.test:443/v1/files/a",
    "not http": "file:///etc/passwd",
}


@pytest.mark.parametrize("target", REDIRECTS.values(), ids=list(REDIRECTS))
@pytest.mark.parametrize("status", [302, 307])
async def test_a_redirect_cannot_lead_elsewhere(
    target: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "secret")
    service = Service(Answer(status, b"", {"Location": target}))
    given = document(
        "/files/{name}",
        components={"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        security=[{"key": []}],
    )

    result = await call(tools(given, service.client, credentials={"key": "KEY"}), {"name": "a"})

    assert result.failure is not None
    assert result.failure.kind is FailureKind.DENIED
    assert result.text.startswith("Not followed: api.test redirects to ")
    assert service.hosts == ["api.test"]


async def test_the_control_of_the_redirects_follows_them() -> None:
    """A client that follows redirects reaches the other host: the vectors above are real."""
    service = Service(Answer(302, b"", {"Location": REDIRECTS["another host"]}))
    await service.client.get("https://api.test/v1/files/a", follow_redirects=True)

    assert service.hosts == ["api.test", "evil.test"]


async def test_a_redirect_to_the_same_resource_is_followed() -> None:
    moved = Answer(307, b"", {"Location": "/v1/pets/?page=1"})
    service = Service(moved)
    plain = Service(Answer(301, b"", {"Location": "https://api.test/v1/pets/"}))
    given = document(method="post", requestBody={"required": True, "content": {"text/plain": {}}})

    result = await call(tools(given, service.client), {"body": "x"})
    upgraded = await call(tools(document(server="http://api.test/v1"), plain.client), {})

    assert (result.failure, upgraded.failure) == (None, None)
    assert [one[:2] for one in service.received] == [
        ("POST", "/v1/pets"),
        ("POST", "/v1/pets/?page=1"),
    ]
    assert service.received[1].body == b"x"


async def test_a_redirect_that_would_change_the_method_and_one_without_end_fail() -> None:
    seen = Service(Answer(302, b"", {"Location": "/v1/pets/"}))
    endless = Service(*[Answer(302, b"", {"Location": "/v1/pets/"})] * 9)

    changed = await call(tools(document(method="post"), seen.client), {})
    result = await call(tools(document(), endless.client), {})

    assert (changed.text, len(seen.received)) == ("POST api.test/v1/pets returned 302 Found.", 1)
    assert (result.text, len(endless.received)) == ("api.test redirected more than 5 times.", 6)


async def test_rules_about_accesses_hold() -> None:
    made = tools(FILES, Service().client)
    tool = made["call_it"]

    def touched(name: str) -> tuple[Access, ...]:
        args = tool.parse({"name": name})
        assert isinstance(args, Args)
        return tool.accesses(args)

    assert touched("a b") == (Access(DESTROY, "net:api.test:443/v1/files/a%20b"),)
    assert touched("..") == (Access(DESTROY, "net:api.test:443/"),)
    assert tool.headline is not None
    assert [tool.headline(name=name) for name in ("a", "..")] == [
        "DELETE https://api.test/v1/files/a",
        "DELETE https://api.test/v1",
    ]

    service = Service()
    secret = Access(READ, "net:api.test:443/v1/files/secret").resource

    def policy(checked: Any) -> Any:
        denied = any(access.resource == secret for access in checked.accesses)
        return Deny("no") if denied else Allow()

    async with Executor(tools(FILES, service.client), policy=policy, hooks=UNFRAMED) as executor:
        await executor.run(Call("call_it", {"name": "secret"}, "c1"))
        await executor.run(Call("call_it", {"name": "other"}, "c2"))
    assert [one.target for one in service.received] == ["/v1/files/other"]


async def test_the_real_thing_reaches_only_hosts_that_the_guard_allows() -> None:
    with on_loopback(Answer(200, b"[1, 2]")) as (url, received, client):
        good = await call(tools(document(server=url), client), {})
        port = int(url.rpartition(":")[2])
        for host in ("127.0.0.1", "other.internal"):
            bad = tools(document(server=f"http://{host}:{port}"))
            result = await call(bad, {})
            assert result.failure is not None
            assert result.failure.kind is FailureKind.DENIED
        inside = Guard(resolver=lambda _host, _port: ["10.0.0.1"])
        rebound = await call(tools(document(), guarded_client(inside)), {})
        await client.aclose()

    assert (good.data, len(received)) == ("[1,2]", 1)
    assert received[0].headers["Host"] == f"pets.internal:{port}"
    assert "api.test' is not on the public internet" in rebound.text


async def test_an_address_of_version_six_can_be_a_server() -> None:
    client = guarded_client(Guard(ports=frozenset({1}), networks=("::1/128",)))

    result = await call(tools(document(server="http://[::1]:1"), client), {})

    assert result.text.startswith("Not sent: ::1 could not be reached.")


async def test_documents_cannot_set_headers_of_the_connection() -> None:
    names = ["Host", "Content-Length", "authorization", "Cookie", "Bad Name", "X-Good", "a\r\nb"]
    given = document(
        parameters=[*(parameter(name, "header") for name in names), parameter("a b", "cookie")]
    )
    [made] = tools(given, Service().client)

    assert list(made.spec.input_schema["properties"]) == ["X-Good"]


SCHEMES: Mapping[str, Any] = {
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "basic": {"type": "http", "scheme": "Basic"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "oauth": {"type": "oauth2", "flows": {}},
}


def secured(*choices: Any, **operation: Any) -> Toolset:
    given = document(
        parameters=[
            parameter("X-KEY", "header", required=True),
            parameter("page", "query"),
            parameter("flavor", "cookie"),
        ],
        components={"securitySchemes": SCHEMES},
        **operation,
    )
    given["security"] = list(choices)
    names = {name: f"SECRET_{name.upper()}" for name in SCHEMES}
    service = Service()
    made = tools(given, service.client, credentials=names)
    made.service = service
    return made


@pytest.mark.parametrize(
    ("choice", "seen"),
    [
        ({"header": []}, ("/v1/pets?page=2", "s&cret", None, "flavor=x")),
        ({"query": []}, ("/v1/pets?page=2&key=s%26cret", None, None, "flavor=x")),
        ({"cookie": []}, ("/v1/pets?page=2", None, None, "flavor=x; sid=s%26cret")),
        ({"basic": []}, ("/v1/pets?page=2", None, "Basic cyZjcmV0", "flavor=x")),
        ({"bearer": []}, ("/v1/pets?page=2", None, "Bearer s&cret", "flavor=x")),
        ({"oauth": ["read"]}, ("/v1/pets?page=2", None, "Bearer s&cret", "flavor=x")),
        ({"unknown": []}, ("/v1/pets?page=2", None, None, "flavor=x")),
        ({}, ("/v1/pets?page=2", None, None, "flavor=x")),
    ],
)
async def test_credentials_come_from_named_variables(
    choice: Any, seen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SCHEMES:
        monkeypatch.setenv(f"SECRET_{name.upper()}", "s&cret")
    made = secured(choice)

    result = await call(made, {"page": "2", "flavor": "x"})

    [got] = made.service.received  # type: ignore[attr-defined]
    assert result.failure is None
    wanted = ("x-key", "authorization", "cookie")
    assert (got.target, *(got.headers.get(name) for name in wanted)) == seen
    assert "X-KEY" not in made["call_it"].spec.input_schema["properties"]


async def test_a_secret_in_a_query_alone_and_an_operation_without_security(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET_QUERY", "s")
    alone, without = secured({"query": []}), secured({"query": []}, security=[])

    await call(alone, {})
    await call(without, {})

    targets = [made.service.received[0].target for made in (alone, without)]  # type: ignore[attr-defined]
    assert targets == ["/v1/pets?key=s", "/v1/pets"]


@pytest.mark.parametrize("secret", [None, "", "a\nb"])
async def test_a_missing_secret_stops_the_call(
    secret: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SECRET_BEARER", raising=False)
    if secret is not None:
        monkeypatch.setenv("SECRET_BEARER", secret)
    made = secured({"bearer": []})

    result = await call(made, {})

    assert result.text == (
        "Not sent: the environment variable SECRET_BEARER has no usable credentials. Tell the "
        "user, and continue without this tool."
    )
    assert made.service.received == []  # type: ignore[attr-defined]


async def test_a_cookie_alone_can_hold_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_COOKIE", "s")
    made = secured({"cookie": []})

    await call(made, {})

    assert made.service.received[0].headers["cookie"] == "sid=s"  # type: ignore[attr-defined]


async def test_the_default_client_keeps_no_cookies() -> None:
    cookie = Answer(200, b"1", {"Set-Cookie": "a=b; Path=/"})
    with on_loopback(cookie, cookie) as (url, received, client):
        made = tools(document(server=url), client)
        await call(made, {})
        await call(made, {})

    assert [one.headers.get("Cookie") for one in received] == [None, None]


def test_another_spelling_of_a_checked_url_is_not_sent() -> None:
    """The client must send what was checked; one that rewrites URLs does not."""

    class Rewriting(httpx2.AsyncClient):
        def build_request(self, method: str, url: Any, **more: Any) -> httpx2.Request:
            return super().build_request(method, str(url).replace("pets", "admin"), **more)

    made = tools(
        document(), Rewriting(transport=httpx2.MockTransport(lambda _: httpx2.Response(200)))
    )
    result = anyio.run(call, made, {})

    assert result.text == "Not sent: the URL has another spelling than the checked one."


OTHER = [{"url": "https://evil.test/v1"}]
KEYED: dict[str, Any] = {
    "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    "security": [{"key": []}],
}
TOO = '`tools(..., credential_servers=["https://evil.test"])` sends them there too.'


def elsewhere(place: str) -> dict[str, Any]:
    """A document with two operations. One is at another server, as its path or itself says."""
    operation = {"operationId": "callIt", **({"servers": OTHER} if place == "operation" else {})}
    path = {"get": operation, "post": operation | {"operationId": "sendIt"}}
    here = {"get": {"operationId": "stayHere"}}
    item = path | ({"servers": OTHER} if place == "path" else {})
    given = document(components=KEYED["components"], security=KEYED["security"])
    return {**given, "security": KEYED["security"], "paths": {"/there": item, "/here": here}}


@pytest.mark.parametrize("place", ["path", "operation"])
@pytest.mark.parametrize("mode", ["plan", "ask", "open"])
async def test_credentials_go_to_no_server_that_only_a_part_of_a_document_names(
    monkeypatch: pytest.MonkeyPatch, place: str, mode: str
) -> None:
    monkeypatch.setenv("KEY", "s3cret")
    service = Service()
    made = tools(elsewhere(place), service.client, credentials={"key": "KEY"})
    async with Executor(
        made, policy=Rulebook(mode=mode, sandboxed=True), hooks=UNFRAMED
    ) as executor:
        there = await executor.run(Call("call_it", {}))
        sent_there = await executor.run(Call("send_it", {}))
        await executor.run(Call("stay_here", {}))

    assert there.text == (
        "Not sent: GET /there is at evil.test, and the credentials are for api.test only. "
        f"Continue without this tool, and tell the user: {TOO}"
    )
    assert sent_there.failure is not None
    [one] = service.received
    assert (service.hosts, one.headers["authorization"]) == (["api.test"], "Bearer s3cret")


@pytest.mark.parametrize(
    "options",
    [
        {"credential_servers": ["https://evil.test"]},
        {"server": "https://evil.test/v1"},
        {"credential_servers": ["https://other.test", "https://evil.test:443/ignored"]},
    ],
)
async def test_a_server_that_the_application_names_gets_credentials(
    monkeypatch: pytest.MonkeyPatch, options: Any
) -> None:
    monkeypatch.setenv("KEY", "s3cret")

    received = await sent(elsewhere("path"), {}, credentials={"key": "KEY"}, **options)

    assert received.headers["authorization"] == "Bearer s3cret"


async def test_another_server_of_the_whole_document_gets_credentials_and_nothing_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KEY", "s3cret")
    given = elsewhere("operation")
    whole = {**given, "servers": [{"url": "/v1"}, *OTHER, {"url": "https://api.test/v1"}]}
    del whole["paths"]["/here"]
    plain = {**given, "servers": [{"url": "http://evil.test/v1"}]}
    service = Service()

    received = await sent(whole, {}, credentials={"key": "KEY"})
    refused = await call(tools(plain, service.client, credentials={"key": "KEY"}), {})

    assert received.headers["authorization"] == "Bearer s3cret"
    assert (service.received, "are for evil.test only" in refused.text) == ([], True)


async def test_an_operation_without_credentials_goes_where_the_document_says() -> None:
    given = elsewhere("path")
    given["paths"]["/there"]["get"] = {"operationId": "callIt", "security": []}

    received = await sent(given, {}, credentials={"key": "KEY"})

    assert "authorization" not in received.headers


def test_a_server_for_credentials_must_be_a_url() -> None:
    with pytest.raises(DefinitionError, match=r"The server 'evil.test' is not a complete URL\."):
        tools(elsewhere("path"), Service().client, credential_servers=["evil.test"])
