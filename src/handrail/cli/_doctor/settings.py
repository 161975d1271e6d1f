"""Settings checks for `handrail doctor`: files, rules, trust, tools and model."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

from handrail import providers
from handrail.cli._base.app import App
from handrail.cli._base.columns import quantity
from handrail.cli._base.exits import Halt
from handrail.cli._base.hook_table import programs_of
from handrail.cli._base.settings import Settings
from handrail.cli._doctor.machine import DoctorCheck, Status
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
from handrail.policy import RulePaths, RuleProblem, Trust, load
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
    wanted = "readable files with known settings"
    try:
        problems = quiet.settings.problems
    except Halt as error:
        yield DoctorCheck("config", "fail", str(error), wanted, error.hint)
        for name in _AFTER_SETTINGS:
            yield DoctorCheck(name, "warn", "not checked", "valid settings", "fix `config` first")
        return
    if problems:
        remedy = "correct the setting, or review an untrusted file with `handrail trust`"
        yield DoctorCheck(
            "config", "warn", _summarize_problems(problems), wanted, remedy, _more(problems)
        )
    else:
        yield DoctorCheck("config", "ok", "no problems", wanted)
    kit = Kit(quiet)
    yield from _tools(kit)
    yield _mode(kit)
    yield _hooks(kit)
    yield from _model(quiet, online=online)


def _summarize_problems(problems: tuple[str, ...]) -> str:
    return problems[0] if len(problems) == 1 else f"{len(problems)} problems"


def _more(problems: tuple[str, ...]) -> tuple[str, ...]:
    return problems if len(problems) > 1 else ()


def _tools(kit: Kit) -> Iterator[DoctorCheck]:
    wanted = "sources of tools that can be loaded"
    try:
        specs = kit.tools.specs
    except Halt as error:
        yield DoctorCheck("tools", "fail", str(error), wanted, error.hint)
        specs = ()
    else:
        yield DoctorCheck("tools", "ok", quantity(len(specs), "tool"), wanted)
    book = load(kit.places, builtin=())
    unreachable = book.unreachable_rules(specs)
    messages = tuple(map(str, unreachable))
    wanted = "rules that can decide a call"
    if unreachable:
        several = "run `handrail rules check` to see how to fix each of them"
        remedy = unreachable[0].hint if len(unreachable) == 1 else several
        yield DoctorCheck(
            "rules-unreachable",
            "warn",
            _summarize_problems(messages),
            wanted,
            remedy,
            _more(messages),
        )
    else:
        yield DoctorCheck(
            "rules-unreachable",
            "ok",
            f"{quantity(len(book.rules), 'rule')}, none unreachable",
            wanted,
        )


def _mode(kit: Kit) -> DoctorCheck:
    """Check the mode is available, and say what runs without approval."""
    wanted = "a mode that is available here; `handrail mode` sets it"
    try:
        book = kit.rules
    except Halt as error:
        return DoctorCheck("mode", "fail", str(error), wanted, error.hint)
    found = f"{book.mode}: {describe_mode(book)}"
    if why_unusable(book):
        return DoctorCheck("mode", "fail", found, wanted, "correct the rules")
    return DoctorCheck("mode", "ok", found, wanted)


def _hooks(kit: Kit) -> DoctorCheck:
    """Check hooks can run, and say which run outside the sandbox."""
    wanted = "hooks that run in the sandbox"
    everywhere = kit.app.settings["unsandboxed_hooks"]
    hooks = list(programs_of(kit.app.settings["hooks"]))
    free = [hook for hook in hooks if everywhere or not hook.sandboxed]
    if free:
        found = (
            f"{len(free)} of {quantity(len(hooks), 'hook')} outside the sandbox, with your rights"
        )
        remedy = "let those run in the sandbox that need no more than a command"
        lines = tuple(f"{hook.event}: {hook.command}" for hook in free)
        return DoctorCheck("hooks", "warn", found, wanted, remedy, lines)
    try:
        if hooks:
            kit.make_hooks("").sandbox()
    except (Halt, SandboxUnavailable) as error:
        remedy = "set up the sandbox, or set `unsandboxed_hooks = true` in your own settings"
        return DoctorCheck("hooks", "fail", f"no hook can run: {error}", wanted, remedy)
    return DoctorCheck("hooks", "ok", quantity(len(hooks), "hook") if hooks else "none", wanted)


def rules(places: RulePaths) -> Iterator[DoctorCheck]:
    """Check each rule file by itself, then the trust file."""
    wanted = "a readable rule file that is not ignored"
    for name, field in _RULES:
        path: Path = getattr(places, field)
        book = load(RulePaths(**{field: path}, trust=places.trust), builtin=())
        if book.problems:
            yield _rules_problem(name, book.problems[0])
        elif path.exists():
            found = quantity(len(book.rules), "rule")
            yield DoctorCheck(name, "ok", found, wanted, details=(str(path),))
        else:
            yield DoctorCheck(name, "ok", "none", wanted, details=(str(path),))
    yield _trust(cast("Path", places.trust))  # always set here


def _trust(file: Path) -> DoctorCheck:
    """Check the trust file can be read and is not writable by others."""
    wanted = "a readable trust file that only you can write"
    problem = Trust(file).problem
    if problem is None:
        found = "readable" if file.exists() else "none"
        return DoctorCheck("trust", "ok", found, wanted, details=(str(file),))
    return DoctorCheck("trust", "fail", f"{file}: {problem.reason}", wanted, problem.hint)


def _rules_problem(name: str, problem: RuleProblem) -> DoctorCheck:
    wanted = "a readable rule file that is not ignored"
    found = str(replace(problem, hint=""))
    status: Status = "fail" if problem.kind == "invalid" else "warn"
    return DoctorCheck(name, status, found, wanted, problem.hint)


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
    try:
        model_of(app.settings, app.workspace, needs_key=False)
    except Halt as error:
        status: Status = "fail" if name else "warn"
        return DoctorCheck("model", status, str(error), wanted, error.hint)
    return DoctorCheck("model", "ok", str(name), wanted)


def _key(provider: providers.Provider | None, settings: Settings) -> DoctorCheck:
    """Check whether the API key is set. Its value is never shown."""
    if provider is None:
        return DoctorCheck("model-key", "ok", "not needed", "an API key, if the model needs one")
    if withheld := describe_withheld_key(settings):
        wanted = "an API key that the file with the address names"
        found, _, remedy = withheld.partition("; ")
        return DoctorCheck("model-key", "warn", found, wanted, remedy)
    base_url, variable = settings["base_url"], key_variable(settings)
    own = variable or (KEY if base_url else "")
    keys = (own,) if own else provider.keys
    wanted = f"an API key in {' or '.join(keys)}"
    credentials = os.environ.get(own) and own if own else find_credentials(provider)
    if credentials:
        verb = "exists" if os.sep in credentials else "is set"
        return DoctorCheck("model-key", "ok", f"{credentials} {verb}", wanted)
    found = f"{keys[0]} is not set"
    if base_url and not variable:
        return DoctorCheck("model-key", "ok", f"{found}; many local servers need no key", wanted)
    return DoctorCheck("model-key", "fail", found, wanted, f"export {keys[0]}=...")


def _server(url: str, *, online: bool) -> DoctorCheck:
    wanted = "a server that accepts connections"
    if not url:
        more = "the model has no provider" if online else "`--online` checks a provider's server"
        found = f"not checked; {more}"
        return DoctorCheck("model-server", "ok", found, wanted)
    try:
        host, port = address_of(url)
    except ValueError:
        found, remedy = f"base_url is not an HTTP URL: {url}", "use http://HOST:PORT/v1"
        return DoctorCheck("model-server", "fail", found, wanted, remedy)
    where = f"{host}:{port}"
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError as error:
        found = f"cannot connect to {where}: {str(error.strerror or error).lower()}"
        remedy = "start the server, or change `--base-url`"
        return DoctorCheck("model-server", "fail", found, wanted, remedy)
    return DoctorCheck("model-server", "ok", f"connected to {where}", wanted)


_SECRET_NAME = re.compile(r"(?i).*(key|token|secret|password|passwd|credentials?)\Z")
_MIN_SECRET_CHARS = 8
_USER_OF_URL = re.compile(r"(:/{1,2})[^/\s@]+@")


def redact_secrets(text: str) -> str:
    """Remove secrets from a text: values in variables with a secret's name, and logins in URLs."""
    for name, value in os.environ.items():
        if len(value) >= _MIN_SECRET_CHARS and _SECRET_NAME.match(name):
            text = text.replace(value, f"[{name}]")
    return _USER_OF_URL.sub(r"\1[redacted]@", text)
