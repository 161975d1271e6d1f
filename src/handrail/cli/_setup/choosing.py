"""Chooses a model and a mode, writes them to a settings file, and tries the model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import anyio

from handrail._support import stream_items
from handrail.cli._base.app import App
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.local_servers import USUAL_PORTS, find_servers
from handrail.cli._base.printable import short
from handrail.cli._base.settings import files
from handrail.cli._project.kit import Kit
from handrail.cli._project.models import check_name, join_hints, model_of
from handrail.cli._project.trusted import trust_of
from handrail.cli._setup.questions import ask_key_variable, ask_mode, ask_model, ask_model_at
from handrail.cli._setup.settings_file import Chosen, store_settings
from handrail.messages import Model, ModelError, Prompt, Request
from handrail.policy import digest

TRIAL_SECONDS = 60.0
"""Seconds to wait for the answer. A local server may have to load the model first."""
_REQUEST = Request((Prompt.of("Reply with the word OK."),), max_tokens=16)


class SetUp(NamedTuple):
    """The choice, its file, and when the model answered."""

    chosen: Chosen
    file: Path
    seconds: float | None


def set_up(
    app: App, *, project: bool = False, ports: Sequence[int] = (), untried: bool = False
) -> SetUp:
    """Ask for what the options do not say, write a settings file, and try the model."""
    chosen = _choose(app, tuple(ports) or USUAL_PORTS)
    file = files(app.workspace)["project" if project else "user"]
    if not project:
        chosen = chosen._replace(model=_absolute(chosen.model, app.workspace))
    store_settings(file, chosen)
    if project:
        trust_of(app.workspace).grant(file, digest(file.read_bytes()))
    app.say(f"wrote {short(file, app.workspace)}")
    fresh = replace(app, flags={})
    _say_overrides(fresh, chosen)
    return SetUp(chosen, file, None if untried else _try(fresh, file))


def _choose(app: App, ports: tuple[int, ...]) -> Chosen:
    """Return the settings, from the options or by questions."""
    flags, kit = app.flags, Kit(replace(app, quiet=True))
    if not app.asks or "model" in flags:
        chosen = Chosen(flags.get("model") or _no_model(ports), flags.get("base_url"))
        check_name(chosen.model)
    elif "base_url" in flags:
        chosen = ask_model_at(flags["base_url"])
    else:
        chosen = ask_model(find_servers(ports))
    variable, mode = flags.get("key_variable"), flags.get("mode")
    if app.asks:
        variable = variable or ask_key_variable(chosen)
        mode = mode or ask_mode(kit.rules, app.settings["mode"] or "ask")
    if mode == "open":  # may raise, before it is stored
        _ = Kit(replace(app, quiet=True, flags={"mode": mode})).rules
    return chosen._replace(key_variable=variable, mode=mode)


def _absolute(model: str, workspace: Path) -> str:
    """Return a model with its file's whole path, which is the same in every workspace."""
    file, colon, name = model.rpartition(":")
    return f"{workspace / file}{colon}{name}" if file.endswith(".py") else model


def _no_model(ports: tuple[int, ...]) -> str:
    """Raise a Halt naming a model that answers here, if any."""
    hint = "pass `--model PROVIDER:NAME`; `handrail models list` lists names"
    for server in [one for one in find_servers(ports) if one.models][:1]:
        hint = f"pass `--model {server.names[0]} --base-url {server.url}`, which answers here"
    raise Halt("there is no terminal to ask for a model", code="no_model", hint=hint)


def _say_overrides(app: App, chosen: Chosen) -> None:
    """Say which settings have another value here, and why."""
    for name, value in chosen._asdict().items():
        origin = app.settings.origins[name]
        if app.settings[name] != value and value is not None:
            app.say(f"{name} has another value here: it is set by {origin.where} ({origin.level})")


def _try(app: App, file: Path) -> float:
    """Return the seconds until the model answered, or a Halt reporting the kept file."""
    app.say("trying it with one short request …")
    try:
        return try_model(model_of(app.settings, app.workspace))
    except Halt as halt:
        kept = f"your settings are kept in {short(file, app.workspace)}"
        raise Halt(
            f"the trial failed: {halt}",
            code=halt.code,
            hint=join_hints(halt.hint, kept),
            exits=halt.exits,
        ) from None


def try_model(model: Model) -> float:
    """Send a short request and return the seconds until the answer; a Halt if there is none."""
    began = time.monotonic()
    try:
        anyio.run(_ask, model)
    except ModelError as error:
        away = error.kind in {"network", "auth"}
        raise Halt(
            error.reason,
            code=f"model_{error.kind}",
            hint=error.hint,
            exits=Exit.UNREACHABLE if away else Exit.FAILED,
        ) from None
    except TimeoutError:
        message = f"no answer within {TRIAL_SECONDS:.0f} seconds"
        raise Halt(message, code="model_network", exits=Exit.UNREACHABLE) from None
    return time.monotonic() - began


async def _ask(model: Model) -> None:
    with anyio.fail_after(TRIAL_SECONDS):
        async for _ in stream_items(model(_REQUEST)):
            pass
