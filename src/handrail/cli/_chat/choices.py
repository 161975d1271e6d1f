"""Choices for chat commands: runs, models, and earlier messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from handrail import Text
from handrail._support import format_duration
from handrail.cli._base.local_servers import USUAL_PORTS, find_servers
from handrail.cli._chat.conversation import Conversation
from handrail.cli._input.lines import Choice
from handrail.cli._project.models import describe_known_models
from handrail.cli._runs.saved import SavedRun, list_runs, readable_runs
from handrail.messages import Message, Prompt

_MAX_RUNS = 100
_MAX_WORDS_CELLS = 50
_MAX_BRANCH_CELLS = 20
_MINUTE = 60


def list_choices(chat: Conversation, command: str) -> Sequence[Choice]:
    """Return what a command chooses from; nothing for most commands."""
    find = _CHOICES.get(command)
    return [] if find is None else list(find(chat))


def other_runs(chat: Conversation) -> list[SavedRun]:
    """Return the folder's other runs, the newest first."""
    own, folder = chat.session.saved.id, str(chat.session.kit.app.workspace)
    readable = readable_runs(list_runs(), lambda _problem: None)
    return [run for run in readable if run.id != own and run.about["workspace"] == folder]


def _runs(chat: Conversation) -> Iterator[Choice]:
    from handrail.cli._runs.timeline import fit_line, say_standing  # seldom needed

    for run in other_runs(chat)[:_MAX_RUNS]:
        about = run.about
        words = fit_line(about["prompt"], _MAX_WORDS_CELLS) or "no message"
        branch = fit_line(str(about.get("branch", "")), _MAX_BRANCH_CELLS)
        more = ", ".join(filter(None, (branch, say_standing(run.standing))))
        yield Choice(run.id, f"{format_age(about['began']):>8}  {words}", more)


def format_age(began: str) -> str:
    """Return how long ago something was."""
    try:
        then = datetime.fromisoformat(began).timestamp()
    except ValueError:
        return ""
    seconds = max(time.time() - then, 0)
    return "now" if seconds < _MINUTE else format_duration(seconds)


def _models(chat: Conversation) -> Iterator[Choice]:
    """Yield usable models: from servers on this machine, then known ones."""
    names = chat.local_models
    if names is None:
        servers = find_servers(USUAL_PORTS)
        names = chat.local_models = [
            (name, server.url) for server in servers for name in server.names
        ]
    own = chat.session.kit.app.settings["base_url"]
    local = [(name, url) for name, url in names if url == own]  # another needs another --base-url
    prefix = chat.model.partition(":")[0]

    def order(known: tuple[str, str]) -> tuple[bool, str]:
        """The same provider's models are first, and new ones before old ones, by their names."""
        return known[0].startswith(f"{prefix}:"), known[0]

    found = dict([*local, *sorted(describe_known_models(), key=order, reverse=True)])
    now = found.pop(chat.model, "")
    if found:
        yield Choice(chat.model, chat.model, ", ".join(filter(None, ("in use", now))))
    for name, about in found.items():
        yield Choice(name, name, about)


def _messages(chat: Conversation) -> Iterator[Choice]:
    """Yield the person's messages, the last one first."""
    from handrail.cli._runs.timeline import fit_line

    prompts = find_prompts(chat.session.state.messages)
    for number, (_, text) in reversed(list(enumerate(prompts, 1))):
        yield Choice(str(number), f"{number:>3}  {fit_line(text, _MAX_WORDS_CELLS)}")


def find_prompts(messages: Sequence[Message]) -> list[tuple[int, str]]:
    """Return where the person's messages are, each with its text."""
    return [
        (at, message.parts[-1].text)
        for at, message in enumerate(messages)
        if isinstance(message, Prompt) and message.parts and isinstance(message.parts[-1], Text)
    ]


_CHOICES: Mapping[str, Callable[[Conversation], Iterator[Choice]]] = MappingProxyType(
    {"model": _models, "resume": _runs, "rewind": _messages}
)
