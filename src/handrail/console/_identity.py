"""Identifies a request's sender: the person at this machine, or one others vouch for."""

from __future__ import annotations

import hmac
import json
import secrets
import socket
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, cast

from starlette.requests import cookie_parser
from starlette.types import Scope

from handrail import HandrailError
from handrail._support.systems import find_user
from handrail.console._config import (
    ROLES,
    ConsoleConfig,
    ConsoleError,
    ConsoleGroup,
    HeaderIdentity,
    OidcIdentity,
    Role,
    SignedIdentity,
)
from handrail.net.cookies import SignedCookie
from handrail.permissions import Approvers

COOKIE = "handrail"
LINK_SECONDS = 60.0
SESSION_SECONDS = 12 * 3600.0
_CODE_BYTES = 16
_LEEWAY_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Person:
    """A person who is signed in."""

    id: str
    """``issuer|subject``: recorded with each answer."""
    name: str
    """What pages show. Text from outside."""
    grants: tuple[ConsoleGroup, ...]
    groups: tuple[str, ...] = ()
    session: str = ""
    """What forms are tied to."""

    def may(self, role: Role, labels: Collection[str] | None = None) -> bool:
        """Return whether the person has a role for a run with these labels. None: for some run."""
        groups = [group.labels for group in self.grants if _includes(group, role)]
        return any(labels is None or own is None or set(own) & set(labels) for own in groups)

    def labels(self, role: Role) -> frozenset[str] | None:
        """Return the labels of the runs for which the person has a role. None: all runs."""
        groups = [group.labels for group in self.grants if _includes(group, role)]
        return None if None in groups else frozenset(one for own in groups for one in own or ())

    def is_asked(self, approvers: Approvers) -> bool:
        """Return whether a request is not reserved for others."""
        names = {self.id, *self.groups}
        return not any(names.isdisjoint(wanted) for wanted in approvers.groups)

    @property
    def title(self) -> str:
        """The person's roles, as text."""
        return ", ".join(role for role in ROLES if any(role in one.roles for one in self.grants))


class Identity(Protocol):
    """Finds the person who sent a request."""

    headers: tuple[str, ...] = ()
    """A proxy's headers. A request with one of them twice is rejected."""
    path: str = ""
    """Pages are below it."""
    unknown: str = "stranger"
    """The message for a person who is not known."""

    def identify(self, scope: Scope, headers: Mapping[str, str]) -> Person | None:
        """Return the person, or None."""
        ...


class LinkIdentity(Identity):
    """The person who started the console on this machine signs in with a one-time link."""

    def __init__(self, key: bytes, *, clock: Callable[[], float], base: str = "") -> None:
        self.unknown = "unknown"
        self.path = f"/c/{secrets.token_urlsafe(_CODE_BYTES)}"
        self._clock = clock
        self._codes: dict[str, float] = {}
        self._cookie = SignedCookie(
            name=COOKIE, path=f"{base}{self.path}/", key=key, clock=clock, seconds=SESSION_SECONDS
        )
        self._user = f"{find_user()}@{socket.gethostname()}"

    def make_code(self) -> str:
        """Return a one-time code, valid for 60 seconds."""
        code = secrets.token_urlsafe(_CODE_BYTES)
        self._codes[code] = self._clock() + LINK_SECONDS
        return code

    def use_code(self, code: str) -> str | None:
        """Return the cookie for a code, or None if the code is used or expired."""
        if self._clock() >= self._codes.pop(code, 0.0):
            return None
        return self._cookie.make(secrets.token_urlsafe(_CODE_BYTES))

    def identify(self, scope: Scope, headers: Mapping[str, str]) -> Person | None:  # noqa: ARG002
        """Return the person who has the cookie."""
        found = self._cookie.read(cookie_parser(headers.get("cookie", "")))
        who = f"local|{find_user()}"
        return Person(who, self._user, (ConsoleGroup(ROLES),), session=found[0]) if found else None


class HeaderReader(Identity):
    """Reads a proxy's plain header, over a Unix socket or with the shared secret."""

    def __init__(self, settings: HeaderIdentity, groups: Mapping[str, ConsoleGroup]) -> None:
        self.headers = (settings.header, settings.groups_header, settings.secret_header)
        self._settings = settings
        self._groups = groups

    def identify(self, scope: Scope, headers: Mapping[str, str]) -> Person | None:
        """Return the person whom the proxy names."""
        settings = self._settings
        if settings.secret:
            sent = headers.get(settings.secret_header.lower(), "")
            if not hmac.compare_digest(sent.encode(), settings.secret.encode()):
                return None
        elif not _is_unix_socket(scope):
            return None
        subject = headers.get(settings.header.lower(), "")
        names = headers.get(settings.groups_header.lower(), "").split(",")
        return _make_person(settings.issuer, subject, subject, names, groups=self._groups)


class SignedReader(Identity):
    """Reads a proxy's signed assertion, and checks it with each request."""

    def __init__(self, settings: SignedIdentity, groups: Mapping[str, ConsoleGroup]) -> None:
        try:
            import jwt
        except ModuleNotFoundError:
            raise ConsoleError(
                "Signed identities need PyJWT. Install it: `pip install 'handrail[console-jwt]'`."
            ) from None
        self._jwt = jwt
        self.headers = (settings.header,)
        self._settings = settings
        self._groups = groups
        self._keys: dict[str, Any] = {}
        self._read_at = -1
        self._load_keys()

    def identify(self, scope: Scope, headers: Mapping[str, str]) -> Person | None:  # noqa: ARG002
        """Return the person whom the assertion names, if it is signed, meant for us and valid."""
        settings, token = self._settings, headers.get(self._settings.header.lower(), "")
        self._load_keys()
        try:
            key = self._keys[str(self._jwt.get_unverified_header(token).get("kid", ""))]
            claims: dict[str, Any] = self._jwt.decode(
                token,
                key,
                algorithms=list(settings.algorithms),
                audience=settings.audience,
                issuer=settings.issuer,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except (self._jwt.PyJWTError, LookupError, ValueError, TypeError):
            return None
        subject = str(claims["sub"])
        name = str(claims.get(settings.name) or subject)
        found: Any = claims.get(settings.groups, ())
        several = cast("Iterable[object]", found if isinstance(found, list | tuple) else [found])
        names = [str(one) for one in several]
        return _make_person(settings.issuer, subject, name, names, groups=self._groups)

    def _load_keys(self) -> None:
        """Read the keys again if their file has changed. A key is known by its ``kid``."""
        path = Path(self._settings.keys)
        try:
            changed = path.stat().st_mtime_ns
            if changed == self._read_at:
                return
            found = self._jwt.PyJWKSet.from_dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, self._jwt.PyJWTError) as error:
            raise ConsoleError(f"Cannot read the keys in {path}: {error}") from None
        self._keys = {str(key.key_id or ""): key for key in found.keys}
        self._read_at = changed


class OidcReader(Identity):
    """Identifies people by a session cookie begun at an OpenID Connect provider."""

    def __init__(
        self, settings: OidcIdentity, config: ConsoleConfig, clock: Callable[[], float]
    ) -> None:
        self.unknown = "login"
        self._issuer, self._groups = settings.issuer, config.groups
        site = {name: getattr(config, name) for name in ("base", "https", "key")}
        try:
            from handrail.net.sign_in import SignIn

            self.sign_in = SignIn(**asdict(settings), **site, known=config.groups, clock=clock)
        except ModuleNotFoundError as error:
            raise ConsoleError(
                f"OIDC needs {error.name}. Install it: `pip install 'handrail[console-oidc]'`."
            ) from None
        except HandrailError as error:
            raise ConsoleError(f"The issuer is not correct: {error}.") from None

    def identify(self, scope: Scope, headers: Mapping[str, str]) -> Person | None:  # noqa: ARG002
        """Return the person who has the cookie."""
        found = self.sign_in.read(cookie_parser(headers.get("cookie", "")))
        if found is None:
            return None
        about = (self._issuer, found.subject, found.name, found.groups)
        person = _make_person(*about, groups=self._groups)
        return person and replace(person, session=found.session)


def make_identity(config: ConsoleConfig, clock: Callable[[], float]) -> Identity:
    """Return what finds the person behind a request."""
    settings = config.identity
    if settings is None:
        return LinkIdentity(config.key, clock=clock, base=config.base)
    if isinstance(settings, HeaderIdentity):
        return HeaderReader(settings, config.groups)
    if isinstance(settings, OidcIdentity):
        return OidcReader(settings, config, clock)
    return SignedReader(settings, config.groups)


def _make_person(
    issuer: str,
    subject: str,
    name: str,
    names: Iterable[str],
    *,
    groups: Mapping[str, ConsoleGroup],
) -> Person | None:
    if not subject:
        return None
    own = tuple(one.strip() for one in names if one.strip() in groups)
    person = f"{issuer}|{subject}"
    return Person(person, name, tuple(groups[one] for one in own), own, session=person)


def _includes(group: ConsoleGroup, role: Role) -> bool:
    """Return whether a group has a role. Every role includes what a viewer may see."""
    return role in group.roles or (role == "viewer" and bool(group.roles))


def _is_unix_socket(scope: Scope) -> bool:
    server = cast("tuple[str, int | None] | None", scope.get("server"))
    return server is not None and server[1] is None
