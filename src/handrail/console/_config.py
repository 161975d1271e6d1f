"""How a console is set up: how it knows people, what they may do, and which runs they see."""

from __future__ import annotations

import os
import secrets
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from handrail import HandrailError

if TYPE_CHECKING:
    from handrail.policy import Rulebook

Role: TypeAlias = Literal["viewer", "approver", "operator", "auditor"]
ROLES: tuple[Role, ...] = ("viewer", "approver", "operator", "auditor")
MIN_SECRET_CHARS = 32
LoadRules: TypeAlias = "Callable[[], Rulebook]"
"""Returns the current rules, to compare recorded calls with them."""


class ConsoleError(HandrailError):
    """The console is not set up correctly."""


@dataclass(frozen=True, slots=True)
class ConsoleGroup:
    """A group's rights, and its visible runs.

    An approver, an operator and an auditor can also see everything a viewer sees.
    """

    roles: tuple[Role, ...] = ("viewer",)
    labels: tuple[str, ...] | None = None
    """Labels for the group's visible runs, such as ``team=payments``. None: all runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIdentity:
    """A proxy sends a signed assertion (JWT) about the person with each request.

    Needs the extra ``handrail[console-jwt]``.
    """

    header: str
    issuer: str
    audience: str
    keys: str
    """A file with the proxy's public keys, as a JSON Web Key Set. Read again if it changes."""
    groups: str = "groups"
    """The claim with the person's groups."""
    name: str = "email"
    """The claim with the name shown on pages."""
    algorithms: tuple[str, ...] = ("ES256", "RS256")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderIdentity:
    """A proxy sends the person's name in a plain header.

    Any program with access to the console could send this header. So the console accepts it only
    over a Unix socket, or together with a secret shared by the proxy and the console.
    """

    header: str = "x-forwarded-user"
    groups_header: str = "x-forwarded-groups"
    issuer: str = "proxy"
    secret_header: str = "x-handrail-secret"  # noqa: S105 a header name
    secret: str = field(default="", repr=False)
    """At least 32 characters. Empty: the console must listen on a Unix socket."""

    def __post_init__(self) -> None:
        if self.secret and len(self.secret) < MIN_SECRET_CHARS:
            raise ConsoleError(f"The proxy's secret has less than {MIN_SECRET_CHARS} characters.")


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcIdentity:
    """People sign in at an OpenID Connect provider. A session ends after 12 hours.

    Needs the extra ``handrail[console-oidc]``. The provider sends people back to ``/callback``.
    """

    issuer: str
    """The provider's address, exactly as in its tokens."""
    client_id: str
    client_secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = ("openid", "email")
    groups: str = "groups"
    """The ID token's claim with the person's groups."""
    name: str = "email"
    """The claim with the name shown on pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleConfig:
    """Console setup.

    Without an identity the console is local: it listens on loopback only, and a person signs in
    with a one-time link.
    """

    identity: SignedIdentity | HeaderIdentity | OidcIdentity | None = None
    hosts: tuple[str, ...] = ()
    """The accepted ``Host`` headers, with the port unless it is the default one."""
    https: bool = False
    """Whether browsers reach the console with ``https``. Always so behind a team's proxy."""
    base: str = ""
    """The path before every page, such as ``/handrail``. A local console has a random one."""
    groups: Mapping[str, ConsoleGroup] = field(default_factory=dict[str, ConsoleGroup])
    """Each group's rights. A person without a group sees nothing."""
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    """Signs forms and cookies. Processes behind one proxy share it."""
    page_size: int = 100
    rules: tuple[str, ...] = ()
    """Rule files, to compare recorded calls with the current rules. They are only read."""

    def __post_init__(self) -> None:
        if len(self.key) < MIN_SECRET_CHARS:
            raise ConsoleError(f"The key has less than {MIN_SECRET_CHARS} bytes.")
        if self.base and not (self.base.startswith("/") and not self.base.endswith("/")):
            raise ConsoleError(f"base {self.base!r} must begin with a slash, and not end with one.")
        here = all(host.startswith("127.0.0.1:") for host in self.hosts)
        if isinstance(self.identity, OidcIdentity) and not (self.https or here):
            raise ConsoleError("OIDC needs `https = true`, unless all hosts are 127.0.0.1.")


def read_config(path: str | os.PathLike[str]) -> ConsoleConfig:
    """Read ``console.toml``. Raises ConsoleError if it is not correct.

    A value ``key_env``, ``secret_env`` or ``client_secret_env`` names an environment variable, to
    keep secrets out of the file.
    """
    file = Path(path)
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConsoleError(f"Cannot read {file}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConsoleError(f"{file} is not TOML: {error}.") from None
    try:
        return _read(values)
    except (TypeError, ValueError, KeyError) as error:
        raise ConsoleError(f"{file}: {error}.") from None


def _read(values: dict[str, Any]) -> ConsoleConfig:
    tables: dict[str, Any] = values.pop("groups", {})
    proxy = _take_env(values.pop("proxy", {}), "secret")
    oidc = _take_env(values.pop("oidc", {}), "client_secret")
    options = _take_env(values, "key")
    if proxy and oidc:
        raise ValueError("people are known by [proxy] or by [oidc], not by both")
    groups = {name: _read_group(group) for name, group in tables.items()}
    if "key" in options:
        options["key"] = options["key"].encode()
    for table in (options, proxy, oidc):
        table |= {name: tuple(one) for name, one in table.items() if isinstance(one, list)}
    identity: SignedIdentity | HeaderIdentity | OidcIdentity | None = None
    if oidc:
        identity = OidcIdentity(**oidc)
    elif "keys" in proxy:
        identity = SignedIdentity(**proxy)
    elif proxy:
        identity = HeaderIdentity(**proxy)
    return ConsoleConfig(identity=identity, groups=groups, **options)


def _take_env(values: dict[str, Any], name: str) -> dict[str, Any]:
    """Replace ``NAME_env`` with the environment variable's value."""
    variable = values.pop(f"{name}_env", None)
    if variable is not None:
        if not os.environ.get(variable):
            raise ValueError(f"the environment has no {variable}")
        values[name] = os.environ[variable]
    return values


def _read_group(values: Mapping[str, Any]) -> ConsoleGroup:
    roles = tuple(values.get("roles", ["viewer"]))
    if unknown := [role for role in roles if role not in ROLES]:
        raise ValueError(f"{unknown[0]!r} is not a role; the roles are {', '.join(ROLES)}")
    if others := sorted(set(values) - {"roles", "labels"}):
        raise ValueError(f"a group has no {others[0]!r}")
    labels = values.get("labels")
    return ConsoleGroup(cast("tuple[Role, ...]", roles), None if labels is None else tuple(labels))
