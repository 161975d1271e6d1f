"""Who a person is: by the link of a terminal, by a proxy that signs, or by a plain header."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from handrail.console import (
    ConsoleConfig,
    ConsoleError,
    ConsoleGroup,
    HeaderIdentity,
    SignedIdentity,
    read_config,
)
from handrail.console._identity import LinkIdentity, Person, make_identity

GROUPS = {
    "pay": ConsoleGroup(("approver",), ("team=pay",)),
    "see": ConsoleGroup(("viewer",), ("team=see",)),
    "all": ConsoleGroup(("auditor",)),
}
SCOPE: dict[str, Any] = {"type": "http", "server": ("127.0.0.1", 8765)}
SOCKET: dict[str, Any] = {"type": "http", "server": ("/run/handrail.sock", None)}
SECRET = "s" * 40


def test_a_role_holds_only_for_the_runs_of_its_group() -> None:
    person = Person("i|s", "ana", (GROUPS["pay"], GROUPS["see"]))

    assert [person.may(role) for role in ("viewer", "approver", "operator", "auditor")] == [
        True,
        True,
        False,
        False,
    ]
    assert person.labels("viewer") == {"team=pay", "team=see"}
    assert person.labels("approver") == {"team=pay"}
    assert person.labels("operator") == frozenset()
    assert Person("i|s", "ana", (GROUPS["all"], GROUPS["see"])).labels("viewer") is None
    assert (Person("i|s", "ana", ()).may("viewer"), person.title) == (False, "viewer, approver")


def test_a_code_works_once_within_a_minute() -> None:
    now = [1000.0]
    link = LinkIdentity(b"k" * 32, clock=lambda: now[0])
    first, second = link.make_code(), link.make_code()
    cookie = link.use_code(first)
    now[0] += 60

    assert cookie is not None
    assert f"Path={link.path}/; HttpOnly; SameSite=Strict" in cookie
    assert [link.use_code(code) for code in (first, second, "", "x")] == [None] * 4


def test_a_cookie_is_signed_and_ends_after_twelve_hours() -> None:
    now = [1000.0]
    link = LinkIdentity(b"k" * 32, clock=lambda: now[0])
    cookie = (link.use_code(link.make_code()) or "").partition(";")[0]
    changed = cookie[:-2] + ("AA" if cookie[-2:] != "AA" else "BB")
    person = link.identify(SCOPE, {"cookie": f"other=1; {cookie}"})

    assert person is not None
    assert person.id.startswith("local|")
    for wrong in (changed, "handrail=", "handrail=x.y.z", "other=1", ""):
        assert link.identify(SCOPE, {"cookie": wrong}) is None
    other = LinkIdentity(b"o" * 32, clock=lambda: now[0])
    assert other.identify(SCOPE, {"cookie": cookie}) is None
    now[0] += 12 * 3600
    assert link.identify(SCOPE, {"cookie": cookie}) is None


def test_a_plain_header_needs_the_secret_or_a_unix_socket() -> None:
    headers = {"x-forwarded-user": "ana", "x-forwarded-groups": "pay, none"}
    with_secret = make_identity(
        ConsoleConfig(identity=HeaderIdentity(secret=SECRET), groups=GROUPS), time.time
    )
    by_socket = make_identity(ConsoleConfig(identity=HeaderIdentity(), groups=GROUPS), time.time)
    ana = Person("proxy|ana", "ana", (GROUPS["pay"],), ("pay",), session="proxy|ana")

    assert with_secret.identify(SCOPE, {**headers, "x-handrail-secret": SECRET}) == ana
    assert by_socket.identify(SOCKET, headers) == ana
    assert by_socket.identify(SCOPE, headers) is None
    assert by_socket.identify({"type": "http"}, headers) is None
    for scope in (SCOPE, SOCKET):
        assert with_secret.identify(scope, headers) is None
        assert with_secret.identify(scope, {**headers, "x-handrail-secret": "s" * 39}) is None
    assert with_secret.identify(SCOPE, {"x-handrail-secret": SECRET}) is None


def keys(path: Path, *several: tuple[str, ec.EllipticCurvePrivateKey]) -> None:
    found = [
        json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key())) | {"kid": name}
        for name, key in several
    ]
    path.write_text(json.dumps({"keys": found}), encoding="utf-8")


def test_a_signed_assertion_is_checked_in_every_part(tmp_path: Path) -> None:
    own, foreign = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    keys(tmp_path / "jwks.json", ("one", own))
    settings = SignedIdentity(
        header="X-Assertion", issuer="https://idp", audience="console", keys=f"{tmp_path}/jwks.json"
    )
    reader = make_identity(ConsoleConfig(identity=settings, groups=GROUPS), time.time)
    claims = {"iss": "https://idp", "aud": "console", "sub": "7", "exp": time.time() + 60}
    good = {**claims, "email": "ana@example.com", "groups": ["pay", "unknown"]}

    def found(sent: dict[str, Any], key: Any = own, kid: str = "one", how: str = "ES256") -> Any:
        token = jwt.encode(sent, key, algorithm=how, headers={"kid": kid})
        return reader.identify(SCOPE, {"x-assertion": token})

    person = found(good)
    assert person == Person(
        "https://idp|7", "ana@example.com", (GROUPS["pay"],), ("pay",), session="https://idp|7"
    )
    assert found({**claims, "groups": "see"}).labels("viewer") == {"team=see"}
    for wrong in (
        {**good, "iss": "https://other"},
        {**good, "aud": "other"},
        {**good, "exp": time.time() - 120},
        {name: value for name, value in good.items() if name != "exp"},
        {name: value for name, value in good.items() if name != "sub"},
    ):
        assert found(wrong) is None
    assert found(good, key=foreign) is None
    assert found(good, kid="other") is None
    assert found(good, key="s" * 40, how="HS256") is None
    assert found(good, key=None, how="none") is None
    assert [reader.identify(SCOPE, {"x-assertion": one}) for one in ("", "a.b.c")] == [None, None]
    keys(tmp_path / "jwks.json", ("two", foreign))
    assert found(good) is None
    assert found(good, key=foreign, kid="two") == person


def test_keys_that_cannot_be_read_are_an_error_at_the_start(tmp_path: Path) -> None:
    settings = SignedIdentity(header="a", issuer="i", audience="a", keys=f"{tmp_path}/none.json")
    with pytest.raises(ConsoleError, match="Cannot read the keys"):
        make_identity(ConsoleConfig(identity=settings), time.time)


def test_without_pyjwt_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jwt", None)
    settings = SignedIdentity(header="a", issuer="i", audience="a", keys="k")
    with pytest.raises(ConsoleError, match=r"handrail\[console-jwt\]"):
        make_identity(ConsoleConfig(identity=settings), time.time)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_settings_are_read_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "k" * 32)
    monkeypatch.setenv("PROXY", SECRET)
    plain = write(
        tmp_path / "plain.toml",
        'hosts = ["c.example"]\nhttps = true\nbase = "/h"\nkey_env = "KEY"\n'
        '[proxy]\nheader = "X-User"\nsecret_env = "PROXY"\n'
        '[groups.pay]\nroles = ["approver"]\nlabels = ["team=pay"]\n[groups.see]\n',
    )
    signed = write(
        tmp_path / "signed.toml",
        '[proxy]\nheader = "A"\nissuer = "i"\naudience = "a"\nkeys = "k"\nalgorithms = ["RS256"]\n',
    )

    assert read_config(plain) == ConsoleConfig(
        identity=HeaderIdentity(header="X-User", secret=SECRET),
        hosts=("c.example",),
        https=True,
        base="/h",
        key=b"k" * 32,
        groups={"pay": ConsoleGroup(("approver",), ("team=pay",)), "see": ConsoleGroup()},
    )
    assert read_config(signed).identity == SignedIdentity(
        header="A", issuer="i", audience="a", keys="k", algorithms=("RS256",)
    )
    shorter = text_of(signed).replace('algorithms = ["RS256"]\n', "")
    assert read_config(write(signed, shorter)).identity == SignedIdentity(
        header="A", issuer="i", audience="a", keys="k"
    )
    assert read_config(write(tmp_path / "empty.toml", "")).identity is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "is not TOML"),
        ("other = 1", "other"),
        ('[groups.a]\nroles = ["boss"]', "'boss' is not a role"),
        ("[groups.a]\ntenant = 1", "a group has no 'tenant'"),
        ('[proxy]\nsecret_env = "NO_SUCH"', "the environment has no NO_SUCH"),
        ('[proxy]\nsecret = "short"', "less than 32"),
        ('key = "short"', "less than 32 bytes"),
        ('base = "h"', "must begin with a slash"),
        ('base = "/h/"', "must begin with a slash"),
    ],
)
def test_settings_that_are_not_correct_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConsoleError, match=message):
        read_config(write(tmp_path / "console.toml", text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConsoleError, match="No such file"):
        read_config(tmp_path / "none.toml")
