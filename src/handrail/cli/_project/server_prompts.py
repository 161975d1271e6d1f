"""Prompts of MCP servers, for a person who begins with one: their arguments, and their text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from handrail import HandrailError, Text
from handrail.cli._base.app import App
from handrail.cli._base.exits import Halt
from handrail.cli._base.settings import closest_name
from handrail.cli._project.own_commands import split_words
from handrail.cli._project.servers import (
    connected,
    find_configured,
    has_servers,
    pins_of,
    source_of,
)
from handrail.messages import Content, Prompt, Reply

if TYPE_CHECKING:
    from handrail.mcp import McpSource, ServerPrompt

_LINE = re.compile(r"/([A-Za-z0-9_.-]++):(\S*+)(?:\s++(.*))?", re.DOTALL)
_SUGGESTED = "[An answer that the server suggests:]\n"


class PromptLine(NamedTuple):
    """A line ``/SERVER:PROMPT WORDS``."""

    server: str
    prompt: str
    words: str


def read_line(app: App, line: str) -> PromptLine | None:
    """Return what a line asks for, if it names a server of this workspace."""
    match = _LINE.fullmatch(line.strip())
    if match is None or not has_servers(app):
        return None
    known = find_configured(replace(app, quiet=True)).servers
    return PromptLine(match[1], match[2], match[3] or "") if match[1] in known else None


def reviewed_servers(app: App) -> list[str]:
    """Return the names of the servers whose tools are reviewed. None of them starts."""
    found: list[str] = []
    if has_servers(app):
        pins = pins_of(app)
        for config in find_configured(replace(app, quiet=True)).servers.values():
            with suppress(HandrailError):
                found += [config.name] if pins.is_reviewed(config.server) else []
    return found


async def fetch_prompts(app: App, server: str) -> list[ServerPrompt]:
    """Start a server, and return its prompts. A Halt if it is not reviewed, or does not answer."""
    async with connected(_find_source(app, server)) as source:
        return await source.list_prompts()


async def fetch_prompt(app: App, line: PromptLine) -> list[Content]:
    """Start a server, and return a prompt's parts, or a Halt. Their words are the server's."""
    async with connected(_find_source(app, line.server)) as source:
        prompts = {one.name: one for one in await source.list_prompts()}
        if line.prompt not in prompts:
            near = closest_name(line.prompt, prompts)
            hint = f"did you mean /{line.server}:{near}?" if near else f"list them: /{line.server}:"
            name = f"{line.server}:{line.prompt}"
            raise Halt(f"there is no prompt {name}", code="no_prompt", hint=hint)
        args = _read_arguments(prompts[line.prompt], line)
        messages = await source.get_prompt(line.prompt, args)
    parts = [part for message in messages for part in _read_parts(message)]
    if not parts:
        hint = "use another one"
        raise Halt("the server sent a prompt without text", code="no_prompt", hint=hint)
    return parts


def describe_usage(server: str, prompt: ServerPrompt) -> str:
    """Return what to type for a prompt."""
    words = [name if required else f"[{name}]" for name, required in prompt.arguments]
    return " ".join((f"/{server}:{prompt.name}", *words))


def _find_source(app: App, server: str) -> McpSource:
    config = find_configured(replace(app, quiet=True)).servers[server]
    try:
        reviewed = pins_of(app).is_reviewed(config.server)
    except HandrailError as error:
        raise Halt(str(error), code="config", hint="then review the server again") from None
    if not reviewed:
        hint = f"review them with `handrail mcp review {server}`"
        raise Halt(f"the tools of {server} are not reviewed", code="not_reviewed", hint=hint)
    return source_of(app, config)


def _read_arguments(prompt: ServerPrompt, line: PromptLine) -> dict[str, str]:
    """Return the arguments: NAME=WORD, or words in order. The last one takes the words left."""
    names = [name for name, _ in prompt.arguments]
    found: dict[str, str] = {}
    left: list[str] = []
    for word in split_words(line.words):
        name, sign, value = word.partition("=")
        if sign and name in names:
            found[name] = value
        else:
            left.append(word)
    free = [name for name in names if name not in found]
    found.update(zip(free[:-1], left, strict=False))
    if rest := left[max(len(free) - 1, 0) :]:
        if not free:
            raise _refuse(prompt, line.server, f"takes no {rest[0]!r}")
        found[free[-1]] = " ".join(rest)
    for name, required in prompt.arguments:
        if required and name not in found:
            raise _refuse(prompt, line.server, f"needs {name}")
    return found


def _refuse(prompt: ServerPrompt, server: str, why: str) -> Halt:
    hint = f"type {describe_usage(server, prompt)}"
    return Halt(f"/{server}:{prompt.name} {why}", code="no_prompt", hint=hint)


def _read_parts(message: Prompt | Reply) -> Sequence[Content]:
    if isinstance(message, Prompt):
        return message.parts
    return (Text(f"{_SUGGESTED}{message.text}", quoted=True),)
