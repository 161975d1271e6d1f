"""What `handrail doctor` looks at in settings: the files, the rules, the tools and the model."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlsplit

from handrail.cli._app import App
from handrail.cli._checks import Check, Status
from handrail.cli._exits import Halt
from handrail.cli._kit import Kit
from handrail.cli._models import KEY, model_of
from handrail.cli._timeline import counted
from handrail.policy import Places, Trust, load

PATIENCE = 3.0
"""Seconds that a server has to take a connection."""


class Provider(NamedTuple):
    """What a model of a provider needs."""

    keys: tuple[str, ...]
    """Variables that hold its key; one of them is enough."""
    server: str


_OPENAI = Provider(("OPENAI_API_KEY",), "https://api.openai.com")
PROVIDERS = MappingProxyType(
    {
        "anthropic": Provider(("ANTHROPIC_API_KEY",), "https://api.anthropic.com"),
        "openai": _OPENAI,
        "openai-chat": _OPENAI,
        "gemini": Provider(
            ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "https://generativelanguage.googleapis.com"
        ),
    }
)
_RULES = (
    ("rules-machine", "managed"),
    ("rules-user", "user"),
    ("rules-remembered", "remembered"),
    ("rules-project", "project"),
)


def settings(app: App, *, online: bool) -> Iterator[Check]:
    """The files of settings, then all that depends on them."""
    quiet = replace(app, quiet=True)  # what there is to say is said in a check
    wanted = "files that can be read, and settings that are known"
    try:
        problems = quiet.settings.problems
    except Halt as error:
        yield Check("config", "fail", str(error), wanted, error.hint)
        for one in ("tools", "rules-dead", "model", "model-key", "model-server"):
            yield Check(one, "warn", "not looked at", "settings that can be read", "mend config")
        return
    if problems:
        remedy = "mend or trust the files"
        yield Check("config", "warn", _counted(problems), wanted, remedy, _more(problems))
    else:
        yield Check("config", "ok", "nothing to complain about", wanted)
    yield from _tools(Kit(quiet))
    yield from _model(quiet, online=online)


def _counted(problems: tuple[str, ...]) -> str:
    return problems[0] if len(problems) == 1 else f"{len(problems)} problems"


def _more(problems: tuple[str, ...]) -> tuple[str, ...]:
    return problems if len(problems) > 1 else ()


def _tools(kit: Kit) -> Iterator[Check]:
    wanted = "all sources of tools can be loaded"
    try:
        specs = kit.tools.specs
    except Halt as error:
        yield Check("tools", "fail", str(error), wanted, error.hint)
        specs = ()
    else:
        yield Check("tools", "ok", counted(len(specs), "tool"), wanted)
    book = load(kit.places, with_shipped=())
    dead = book.dead(specs)
    wanted = "every rule can decide something"
    if dead:
        remedy = "mend them or take them out; `handrail rules check` says more"
        yield Check("rules-dead", "warn", _counted(dead), wanted, remedy, _more(dead))
    else:
        yield Check(
            "rules-dead", "ok", f"{counted(len(book.rules), 'rule')}, none of them dead", wanted
        )


def rules(places: Places) -> Iterator[Check]:
    """Each file of rules by itself, and that of trust: it can be read, and it counts."""
    wanted = "rules that can be read, and that count"
    for name, field in _RULES:
        path: Path = getattr(places, field)
        book = load(Places(**{field: path}, trust=places.trust), with_shipped=())
        if book.problems:
            yield _rules_problem(name, path, book.problems[0])
        elif path.exists():
            found = counted(len(book.rules), "rule")
            yield Check(name, "ok", found, wanted, details=(str(path),))
        else:
            yield Check(name, "ok", "none", wanted, details=(str(path),))
    assert places.trust is not None  # noqa: S101  the usual places have one
    yield _trust(places.trust)


def _trust(file: Path) -> Check:
    """What was trusted counts, and more can be."""
    wanted = "a file of trust that can be read, and that nobody else can write"
    trouble = Trust(file).trouble
    if not trouble:
        found = "it can be read" if file.exists() else "none"
        return Check("trust", "ok", found, wanted, details=(str(file),))
    if trouble.startswith("others may write"):
        remedy = f"look at what it says, then chmod go-w {file} {file.parent}"
    else:
        remedy = "mend it there, or remove it and trust anew; until then nothing in it counts"
    return Check("trust", "fail", trouble, wanted, remedy)


def _rules_problem(name: str, path: Path, problem: str) -> Check:
    wanted = "rules that can be read, and that count"
    if problem.startswith("the rules cannot be used"):
        remedy = "mend it there; until then every call is denied"
        return Check(name, "fail", problem, wanted, remedy)
    if "is not trusted" in problem:
        return Check(name, "warn", problem, wanted, "look at it with `handrail trust`")
    if "others may write" in problem:
        return Check(name, "warn", problem, wanted, f"chmod go-w {path} {path.parent}")
    return Check(name, "warn", problem, wanted, "make it a file of its own, in a folder of its own")


def _model(app: App, *, online: bool) -> Iterator[Check]:
    """The model: named, with its library, its key and its server."""
    name, base_url = app.settings["model"], app.settings["base_url"]
    yield _named(app, name)
    provider = PROVIDERS.get(str(name).partition(":")[0])
    yield _key(provider, base_url)
    yield _server(base_url or (provider.server if provider and online else ""))


def _named(app: App, name: str | None) -> Check:
    """The model itself, made as for a run; nothing is sent."""
    wanted = f"NAME of {', '.join(PROVIDERS)}, like openai:NAME; or FILE.py:NAME or MODULE:NAME"
    try:
        model_of(app.settings, app.workspace)
    except Halt as error:
        status: Status = "fail" if name else "warn"
        remedy = "install it" if "handrail doctor" in error.hint else error.hint
        return Check("model", status, str(error), wanted, remedy)
    return Check("model", "ok", str(name), wanted)


def _key(provider: Provider | None, base_url: str | None) -> Check:
    """What proves who asks, if it is there; never what it is."""
    if provider is None:
        return Check("model-key", "ok", "none is needed", "a key, where the model needs one")
    keys = (KEY,) if base_url else provider.keys
    wanted = f"a value in {' or '.join(keys)}"
    there = next((one for one in keys if os.environ.get(one)), None)
    if there is not None:
        return Check("model-key", "ok", f"{there} is set", wanted)
    if base_url:
        return Check("model-key", "ok", "none is set; a server of your own may need none", wanted)
    return Check("model-key", "fail", "none is set", wanted, f"export {keys[0]}=...")


def _server(url: str) -> Check:
    wanted = "a server that takes connections"
    if not url:
        return Check("model-server", "ok", "not tried: no base_url, and no --online", wanted)
    try:
        host, port = _place(url)
    except ValueError:
        remedy = "write it like http://127.0.0.1:8080/v1"
        return Check("model-server", "fail", "the base_url is no URL of a server", wanted, remedy)
    where = f"{host}:{port}"
    try:
        socket.create_connection((host, port), PATIENCE).close()
    except OSError as error:
        found = f"{where} cannot be reached: {error.strerror or error}"
        return Check("model-server", "fail", found, wanted, "start the server, or mend base_url")
    return Check("model-server", "ok", f"{where} takes connections", wanted)


def _place(url: str) -> tuple[str, int]:
    parts, usual = urlsplit(url), {"http": 80, "https": 443}
    if not parts.hostname or parts.scheme not in usual:
        raise ValueError
    return parts.hostname, parts.port or usual[parts.scheme]


_SECRET_NAME = re.compile(r"(?i).*(key|token|secret|password|passwd|credentials?)\Z")
_SHORTEST = 8
_USER_OF_URL = re.compile(r"(:/{1,2})[^/\s@]+@")


def redacted(text: str) -> str:
    """Text without what opens doors: values of variables that name a secret, users of URLs."""
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _SECRET_NAME.match(name):
            text = text.replace(value, f"[{name}]")
    return _USER_OF_URL.sub(r"\1[redacted]@", text)
