"""The questions in `handrail init`, on stderr. Ctrl-C or Ctrl-D ends it; nothing is written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from typing import TypeVar

import click

from handrail.cli._base.columns import columns
from handrail.cli._base.exits import Halt
from handrail.cli._base.local_servers import LocalServer, models_at
from handrail.cli._base.printable import one_line
from handrail.cli._base.settings import is_variable
from handrail.cli._project.models import BY_PREFIX, KEY, address_of, check_name
from handrail.cli._rules.mode import WITH_SANDBOX, WITHOUT_SANDBOX
from handrail.cli._setup.settings_file import Chosen
from handrail.models import find_credentials
from handrail.net import is_loopback
from handrail.policy import Rulebook

SUGGESTED = ("anthropic:claude-opus-5", "openai:gpt-5")
"""One model per provider with known prices."""
_MAX_OFFERED = 8
"""Local models offered."""
T = TypeVar("T")


def ask_model(servers: Sequence[LocalServer]) -> Chosen:
    """Ask for the model. Servers on this machine come first, then providers with a key."""
    offers, ready = _offers(servers)
    _show("Which model?", [(chosen.model, note) for chosen, note in offers])
    for server in servers:
        if not server.models:
            note = f"{server.url} is still loading its model: wait, and run `handrail init` again"
            click.echo(note, err=True)
    click.echo("Or type PROVIDER:NAME, or the address of a server: http://HOST:PORT/v1", err=True)

    def read(text: str) -> Chosen:
        if text.isdecimal():
            return offers[_number(text, len(offers)) - 1][0]
        if text.startswith(("http://", "https://")):
            return ask_model_at(text)
        check_name(text)
        return Chosen(text)

    return _ask("Model", read, default="1" if ready else None)


def _offers(servers: Sequence[LocalServer]) -> tuple[list[tuple[Chosen, str]], bool]:
    """Return models with a note for each, and whether the first can be used at once."""
    local = [
        (Chosen(name, server.url), f"answers at {server.url}")
        for server in servers
        for name in server.names
    ][:_MAX_OFFERED]
    found = {name: find_credentials(BY_PREFIX[name.partition(":")[0]]) for name in SUGGESTED}
    keys = {name: BY_PREFIX[name.partition(":")[0]].keys[0] for name in SUGGESTED}
    with_key = [(Chosen(name), f"{where} is set") for name, where in found.items() if where]
    without = [(Chosen(name), f"needs {keys[name]}") for name in SUGGESTED if not found[name]]
    return [*local, *with_key, *without], bool(local or with_key)


def ask_model_at(url: str) -> Chosen:
    """Ask for a server's model, unless it offers only one."""
    address_of(url)  # a ValueError
    scheme, _, rest = url.rstrip("/").partition("://")
    base_url = f"{scheme}://{rest}" if "/" in rest else f"{scheme}://{rest}/v1"
    models = models_at(base_url)[:_MAX_OFFERED]
    if len(models) == 1:
        return Chosen(f"openai-chat:{models[0]}", base_url)
    if models:
        _show(f"Which model at {base_url}?", [(model, "") for model in models])

    def read(text: str) -> Chosen:
        is_row = bool(models) and text.isdecimal()
        name = models[_number(text, len(models)) - 1] if is_row else text
        return Chosen(f"openai-chat:{name}", base_url)

    return _ask("Name of the model", read, default="1" if models else None)


def ask_key_variable(chosen: Chosen) -> str | None:
    """Ask for the API key's variable, if one is needed and not found."""
    provider = BY_PREFIX.get(chosen.model.partition(":")[0])
    if provider is None:
        return None
    if chosen.base_url is not None:
        if is_loopback(address_of(chosen.base_url)[0]) or os.environ.get(KEY):
            return None
        usual, note = "none", "The server may need none."
    elif find_credentials(provider):
        return None
    else:
        usual, note = provider.keys[0], "The key itself is stored nowhere."

    def read(text: str) -> str | None:
        if text == usual:
            return None
        if not is_variable(text):
            raise Halt("that is not the name of a variable, such as MY_API_KEY", code="usage")
        return text

    click.echo(f"\nWhich environment variable has the API key? {note}", err=True)
    return _ask("Variable", read, default=usual)


def ask_mode(book: Rulebook, usual: str) -> str:
    """Ask for the mode. The rules say whether commands run in a sandbox."""
    means = WITH_SANDBOX if book.is_sandboxed else WITHOUT_SANDBOX
    modes = list(means)
    _show("What can the model do without approval?", list(means.items()))

    def read(text: str) -> str:
        if text in modes:
            return text
        return modes[_number(text, len(modes)) - 1]

    return _ask("Mode", read, default=usual)


def _show(question: str, rows: Sequence[tuple[str, str]]) -> None:
    click.echo(f"\n{question}", err=True)
    numbered = [
        (f"  {n}", one_line(name), one_line(note)) for n, (name, note) in enumerate(rows, 1)
    ]
    for line in columns(numbered, width=shutil.get_terminal_size().columns):
        click.echo(line, err=True)


def _ask(question: str, read: Callable[[str], T], *, default: str | None) -> T:
    """Ask until the answer can be read."""
    while True:
        text = str(click.prompt(question, default=default, err=True)).strip()
        try:
            return read(text)
        except Halt as halt:
            message = f"  {halt}; {halt.hint}" if halt.hint else f"  {halt}"
        except ValueError:
            message = "  that is not an HTTP address, such as http://127.0.0.1:8080/v1"
        click.echo(one_line(message), err=True)


def _number(text: str, most: int) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise Halt(f"type a number from 1 to {most}", code="usage")
    return int(text)
