"""Settings checks for `handrail doctor`: files, rules, trust, tools and model."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from handrail import providers
from handrail.cli._base.app import App
from handrail.cli._base.columns import quantity
from handrail.cli._base.exits import Halt
from handrail.cli._base.hook_table import programs_of
from handrail.cli._base.settings import Settings
from handrail.cli._doctor.machine import DoctorCheck
from handrail.cli._project.kit import Kit
from handrail.cli._project.models import (
    BY_PREFIX,
    KEY,
    address_of,
    describe_withheld_key,
    key_variable,
    model_of,
)
from handrail.cli._rules.files import why_unusable
from handrail.cli._rules.mode import describe_mode
from handrail.models import find_credentials
from handrail.policy import RulePaths, Trust, load
from handrail.sandbox import SandboxUnavailable

CONNECT_SECONDS = 3.0
"""Seconds to wait for a connection."""
PROVIDERS = BY_PREFIX
_RULES = (
    ("rules-system", "managed"),
    ("rules-user", "user"),
    ("rules-remembered", "remembered"),
    ("rules-project", "project"),
)


_AFTER_SETTINGS = (
    "tools",
    "rules-unreachable",
    "mode",
    "hooks",
    "model",
    "model-key",
    "model-server",
)
"""Checks needing valid settings."""


def settings(app: App, *, online: bool) -> Iterator[DoctorCheck]:
    """Check the settings files, then everything depending on them."""
    quiet = replace(app, quiet=True)  # the checks report problems themselves
    check = partial(DoctorCheck, "config", "readable files with known settings")
    try:
        problems = quiet.settings.problems
    except Halt as error:
        yield check("fail", str(error), error.hint)
        for name in _AFTER_SETTINGS:
            yield DoctorCheck(name, "valid settings", "warn", "not checked", "fix `config` first")
        return
    remedy = "correct the setting, or review an untrusted file with `handrail trust`"
    yield check("warn", *_list(problems, remedy)) if problems else check("ok", "no problems")
    kit = Kit(quiet)
    yield from _tools(kit)
    yield _mode(kit)
    yield _hooks(kit)
    yield from _model(quiet, online=online)


def _list(problems: tuple[str, ...], remedy: str) -> tuple[str, str, tuple[str, ...]]:
    """Return what was found, the remedy and the details: all problems, if there are several."""
    if len(problems) == 1:
        return problems[0], remedy, ()
    return f"{len(problems)} problems", remedy, problems


def _tools(kit: Kit) -> Iterator[DoctorCheck]:
    check = partial(DoctorCheck, "tools", "sources of tools that can be loaded")
    try:
        specs = kit.tools.specs
    except Halt as error:
        yield check("fail", str(error), error.hint)
        specs = ()
    else:
        yield check("ok", quantity(len(specs), "tool"))
    book = load(kit.places, builtin=())
    unreachable = book.unreachable_rules(specs)
    check = partial(DoctorCheck, "rules-unreachable", "rules that can decide a call")
    if unreachable:
        several = "run `handrail rules check` to see how to fix each of them"
        remedy = unreachable[0].hint if len(unreachable) == 1 else several
        yield check("warn", *_list(tuple(map(str, unreachable)), remedy))
    else:
        yield check("ok", f"{quantity(len(book.rules), 'rule')}, none unreachable")


def _mode(kit: Kit) -> DoctorCheck:
    """Check the mode is available, and say what runs without approval."""
    check = partial(DoctorCheck, "mode", "a mode that is available here; `handrail mode` sets it")
    try:
        book = kit.rules
    except Halt as error:
        return check("fail", str(error), error.hint)
    found = f"{book.mode}: {describe_mode(book)}"
    return check("fail", found, "correct the rules") if why_unusable(book) else check("ok", found)


def _hooks(kit: Kit) -> DoctorCheck:
    """Check hooks can run, and say which run outside the sandbox."""
    check = partial(DoctorCheck, "hooks", "hooks that run in the sandbox")
    everywhere = kit.app.settings["unsandboxed_hooks"]
    hooks = list(programs_of(kit.app.settings["hooks"]))
    free = [hook for hook in hooks if everywhere or not hook.sandboxed]
    if free:
        found = (
            f"{len(free)} of {quantity(len(hooks), 'hook')} outside the sandbox, with your rights"
        )
        remedy = "let those run in the sandbox that need no more than a command"
        lines = tuple(f"{hook.event}: {hook.command}" for hook in free)
        return check("warn", found, remedy, lines)
    try:
        if hooks:
            kit.make_hooks("").sandbox()
    except (Halt, SandboxUnavailable) as error:
        remedy = "set up the sandbox, or set `unsandboxed_hooks = true` in your own settings"
        return check("fail", f"no hook can run: {error}", remedy)
    return check("ok", quantity(len(hooks), "hook") if hooks else "none")


def rules(places: RulePaths) -> Iterator[DoctorCheck]:
    """Check each rule file by itself, then the trust file."""
    for name, field in _RULES:
        check = partial(DoctorCheck, name, "a readable rule file that is not ignored")
        path: Path = getattr(places, field)
        book = load(RulePaths(**{field: path}, trust=places.trust), builtin=())
        if book.problems:
            problem = book.problems[0]
            found = str(replace(problem, hint=""))
            yield check("fail" if problem.kind == "invalid" else "warn", found, problem.hint)
        else:
            found = quantity(len(book.rules), "rule") if path.exists() else "none"
            yield check("ok", found, details=(str(path),))
    yield _trust(cast("Path", places.trust))  # always set here


def _trust(file: Path) -> DoctorCheck:
    """Check the trust file can be read and is not writable by others."""
    check = partial(DoctorCheck, "trust", "a readable trust file that only you can write")
    problem = Trust(file).problem
    if problem is None:
        found = "readable" if file.exists() else "none"
        return check("ok", found, details=(str(file),))
    return check("fail", f"{file}: {problem.reason}", problem.hint)


def _model(app: App, *, online: bool) -> Iterator[DoctorCheck]:
    """Check the model, its key and its server."""
    name, base_url = app.settings["model"], app.settings["base_url"]
    yield _model_check(app, name)
    provider = PROVIDERS.get(str(name).partition(":")[0])
    yield _key(provider, app.settings)
    yield _server(base_url or (provider.server if provider and online else ""), online=online)


def _model_check(app: App, name: str | None) -> DoctorCheck:
    """Check the model by loading it as a run would. Nothing is sent to it."""
    known = sorted(PROVIDERS.values(), key=lambda provider: (provider.server, provider.prefix))
    names = ", ".join(provider.prefix for provider in known)
    wanted = f"PROVIDER:NAME with one of {names}; or FILE.py:NAME, or MODULE:NAME"
    check = partial(DoctorCheck, "model", wanted)
    try:
        model_of(app.settings, app.workspace, needs_key=False)
    except Halt as error:
        return check("fail" if name else "warn", str(error), error.hint)
    return check("ok", str(name))


def _key(provider: providers.Provider | None, settings: Settings) -> DoctorCheck:
    """Check whether the API key is set. Its value is never shown."""
    if provider is None:
        return DoctorCheck("model-key", "an API key, if the model needs one", "ok", "not needed")
    if withheld := describe_withheld_key(settings):
        wanted = "an API key that the file with the address names"
        found, _, remedy = withheld.partition("; ")
        return DoctorCheck("model-key", wanted, "warn", found, remedy)
    base_url, variable = settings["base_url"], key_variable(settings)
    own = variable or (KEY if base_url else "")
    keys = (own,) if own else provider.keys
    check = partial(DoctorCheck, "model-key", f"an API key in {' or '.join(keys)}")
    credentials = os.environ.get(own) and own if own else find_credentials(provider)
    if credentials:
        verb = "exists" if os.sep in credentials else "is set"
        return check("ok", f"{credentials} {verb}")
    found = f"{keys[0]} is not set"
    if base_url and not variable:
        return check("ok", f"{found}; many local servers need no key")
    return check("fail", found, f"export {keys[0]}=...")


def _server(url: str, *, online: bool) -> DoctorCheck:
    check = partial(DoctorCheck, "model-server", "a server that accepts connections")
    if not url:
        more = "the model has no provider" if online else "`--online` checks a provider's server"
        return check("ok", f"not checked; {more}")
    try:
        host, port = address_of(url)
    except ValueError:
        return check("fail", f"base_url is not an HTTP URL: {url}", "use http://HOST:PORT/v1")
    where = f"{host}:{port}"
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError as error:
        found = f"cannot connect to {where}: {str(error.strerror or error).lower()}"
        return check("fail", found, "start the server, or change `--base-url`")
    return check("ok", f"connected to {where}")


_SECRET_NAME = re.compile(r"(?i).*(key|token|secret|password|passwd|credentials?)\Z")
_MIN_SECRET_CHARS = 8
_USER_OF_URL = re.compile(r"(:/{1,2})[^/\s@]+@")


def redact_secrets(text: str) -> str:
    """Remove secrets from a text: values in variables with a secret's name, and logins in URLs."""
    for name, value in os.environ.items():
        if len(value) >= _MIN_SECRET_CHARS and _SECRET_NAME.match(name):
            text = text.replace(value, f"[{name}]")
    return _USER_OF_URL.sub(r"\1[redacted]@", text)
