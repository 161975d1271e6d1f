"""A server's questions during a call: put to the user of that call, never to a model."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import anyio
import mcp_types as types
from mcp.client import ClientRequestContext

from handrail import Context, Json, Result, ToolFailed
from handrail._support import is_list, is_object
from handrail._support.loop import spawn
from handrail._support.visible import spell_out
from handrail.net import is_loopback

MAX_ROUNDS = 10
"""How many times one call can ask."""
MAX_QUESTIONS = 5
"""Questions in one round."""
MAX_STATE_CHARS = 100_000
"""Characters that a server can make the call keep until there is an answer."""
_PAUSE_SECONDS = 0.25
_ADDRESS = "Open this address, and agree when you have finished there: {}"

log = logging.getLogger("handrail.mcp")

Sent: TypeAlias = Result | types.InputRequiredResult | None
Send: TypeAlias = Callable[[Mapping[str, Any] | None, str | None], Awaitable[Sent]]
"""Sends a call with the answers and the state of the last round."""
MAX_FIELDS = 20
MAX_CHOICES = 100
MAX_TEXT_CHARS = 4_000
"""Characters in one text of a form."""
_TYPES = frozenset({"string", "number", "integer", "boolean", "array"})
_TEXTS = ("title", "description", "const", "default", "pattern", "format")
_SECRET = re.compile(
    r"pass(?:word|phrase|code)|secret|(?:api|access|private|signing)[\s_-]*key|credential|bearer"
    r"|(?:auth|access|refresh|api|login|session)[\s_-]*token|\btoken\b|\bcvv\b|\bcvc\b|\bpin\b"
    r"|(?:card|account)[\s_-]*number|social security|\bssn\b|one[\s-]*time code|\botp\b|\bmfa\b",
    re.IGNORECASE,
)
_WARNS = re.compile(r"\b(?:do not|don't|never)\b", re.IGNORECASE)
"""A description that warns against a secret does not ask for it."""


async def call_and_ask(send: Send, context: Context, server: str) -> Result | None:
    """Call a tool, and put the server's questions to the user until there is a result.

    A question can be answered later: the call begins again, with the state that the server gave.
    """
    required: Any
    number, required = _find_last(context)
    for _ in range(MAX_ROUNDS + 1):
        responses: Any = None
        if required is not None:
            responses = await _ask_all(context, server, number, required)
        sent = await send(responses, None if required is None else required["state"])
        if not isinstance(sent, types.InputRequiredResult):
            return sent
        required = _read_required(sent, server)
        number += 1 if required["requests"] else 0
    raise ToolFailed(f"The MCP server {server!r} asks without end. The call was given up.")


def _find_last(context: Context) -> tuple[int, Any]:
    """Return the number of the last round that was asked before, and what it requires."""
    number, required = 0, None
    while (asked := context.asked(f"question-{number + 1}.0")) is not None:
        number, required = number + 1, asked["state"]
    return number, required


def _read_required(sent: types.InputRequiredResult, server: str) -> dict[str, Json]:
    """Return what a server requires, to keep until there is an answer."""
    asked = sent.input_requests or {}
    state = sent.request_state
    plain: dict[str, Any] = {
        key: request.model_dump(mode="json", by_alias=True, exclude_none=True)
        for key, request in asked.items()
    }
    size = len(state or "") + sum(len(str(request)) for request in plain.values())
    if len(plain) > MAX_QUESTIONS or size > MAX_STATE_CHARS:
        raise ToolFailed(f"The MCP server {server!r} asks for too much. The call was given up.")
    others = {one["method"] for one in plain.values()} - {"elicitation/create"}
    if others:
        named = ", ".join(sorted(others))
        raise ToolFailed(f"The MCP server {server!r} needs what is not offered here: {named}.")
    return {"requests": plain, "state": state}


async def _ask_all(
    context: Context, server: str, number: int, required: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Ask a round's questions, one after the other."""
    requests: Mapping[str, Any] = required["requests"]
    if not requests:  # it only wants to be called again
        await anyio.sleep(_PAUSE_SECONDS)
        return None
    responses: dict[str, Any] = {}
    for index, (key, request) in enumerate(requests.items()):
        name = f"question-{number}.{index}"
        responses[key] = await ask(context, server, request["params"], name, state=dict(required))
    return responses


async def answer_requests(
    context: Context, server: str, asked: Mapping[str, types.InputRequest]
) -> dict[str, Any]:
    """Put the questions of a server's long work to the user, and return the answers by key."""
    required = _read_required(types.InputRequiredResult(input_requests=dict(asked)), server)
    requests: Any = required["requests"]
    return {
        key: await ask(context, server, request["params"], f"task-{key}")
        for key, request in requests.items()
    }


async def ask(
    context: Context,
    server: str,
    params: Mapping[str, Any],
    name: str,
    *,
    state: Json = None,
    now: bool = False,
) -> types.ElicitResult:
    """Put one question to the user of a call, and return the answer for the server."""
    message, url = str(params.get("message", "")), str(params.get("url", ""))
    form: Any = params.get("requestedSchema") or {"type": "object", "properties": {}}
    refused = refuse_address(url) if url else refuse_form(message, form)
    if refused:
        log.warning("a question of the MCP server %r was refused: %s", server, refused)
        return types.ElicitResult(action="decline")
    said = f"The MCP server {server!r} asks: {spell_out(message)}"
    if url:
        said = f"{said} {_ADDRESS.format(url)}"
        form = {"type": "object", "properties": {}}
    asker = f"the MCP server {server!r}"
    values: Any = await context.ask(
        said, form, name=name, asker=asker, url=url, state=state, now=now
    )
    if values is None:
        return types.ElicitResult(action="decline")
    return types.ElicitResult(action="accept", content=None if url else values)


def find_address(data: Any) -> str:
    """Return the address that an older server wants opened before it takes a call, or ""."""
    asked = data.get("elicitations") if is_object(data) else None
    first: Any = asked[0] if is_list(asked) and asked else None
    url = str(first.get("url", "")) if is_object(first) else ""
    return "" if refuse_address(url) else url


@dataclass(slots=True, eq=False)
class _Asker:
    """A running call that questions of an older server can belong to."""

    context: Context
    server: str
    variables: Any = field(default_factory=copy_context)
    asked: int = 0
    scopes: list[anyio.CancelScope] = field(default_factory=list[anyio.CancelScope])
    tasks: list[object] = field(default_factory=list[object])

    async def answer(self, params: Mapping[str, Any]) -> types.ElicitResult:
        """Ask in the context of the call. The question ends with the call."""
        answers: list[types.ElicitResult] = []
        ended = anyio.Event()
        scope = anyio.CancelScope()
        self.scopes.append(scope)
        self.asked += 1
        name = f"question-0.{self.asked}"

        async def run() -> None:
            try:
                with scope:
                    answers.append(await ask(self.context, self.server, params, name, now=True))
            except Exception:
                log.exception("a question of the MCP server %r failed", self.server)
            finally:
                ended.set()

        self.tasks.append(spawn(self.variables, run, lost=ended.set))
        await ended.wait()
        return answers[0] if answers else types.ElicitResult(action="cancel")


class Askers:
    """The running calls of a session with an older server, which asks while they run."""

    def __init__(self) -> None:
        self._running: list[_Asker] = []

    @contextmanager
    def note(self, context: Context, server: str) -> Generator[None]:
        """Let the server ask the user of this call until the block ends."""
        asker = _Asker(context, server)
        self._running.append(asker)
        try:
            yield
        finally:
            self._running.remove(asker)
            for scope in asker.scopes:
                scope.cancel()

    async def answer(
        self,
        context: ClientRequestContext,  # noqa: ARG002  the SDK names it
        params: types.ElicitRequestParams,
    ) -> types.ElicitResult:
        """Answer a question: it does not say which call it belongs to.

        If several users have a call running, it is not put to any of them.
        """
        users = {(one.context.principal, one.context.run_id) for one in self._running}
        if len(users) != 1 or self._running[-1].asked >= MAX_ROUNDS:
            log.warning("a question of an MCP server was cancelled: it is not clear whom it asks")
            return types.ElicitResult(action="cancel")
        plain = params.model_dump(mode="json", by_alias=True, exclude_none=True)
        return await self._running[-1].answer(plain)


def refuse_form(message: str, form: Mapping[str, Any]) -> str:
    """Return why a form is not shown to a person, or ""."""
    fields: Any = form.get("properties", {})
    if form.get("type", "object") != "object" or not is_object(fields):
        return "its form is not an object"
    if len(fields) > MAX_FIELDS or len(message) > MAX_TEXT_CHARS:
        return "it asks for too much"
    found = (_refuse_field(name, field) for name, field in fields.items())
    return next(filter(None, found), "")


def refuse_address(url: str) -> str:
    """Return why an address is not shown to a person, or ""."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return "its address is not valid"
    if not host or parts.username or len(url) > MAX_TEXT_CHARS or not url.isprintable():
        return "its address is not valid"
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)):
        return ""
    return "its address is not encrypted"


def _refuse_field(name: str, field: Any) -> str:
    if not is_object(field) or field.get("type", "string") not in _TYPES:
        return f"its field {name[:80]!r} is not a text, number, boolean or choice"
    items: Any = field.get("items", {})
    if not is_object(items) or "properties" in field or "properties" in items:
        return f"its field {name[:80]!r} is nested"
    texts = [name, *(str(field.get(key, "")) for key in _TEXTS)]
    choices = _list_choices(field) + _list_choices(items)
    if len(choices) > MAX_CHOICES or any(len(text) > MAX_TEXT_CHARS for text in texts):
        return f"its field {name[:80]!r} is too long"
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name)
    said = "" if _WARNS.search(texts[2]) else texts[2]
    if _SECRET.search(f"{spaced} {texts[1]} {said}") or field.get("format") == "password":
        return f"its field {name[:80]!r} is for a secret, which must never go into a form"
    return ""


def _list_choices(field: Mapping[str, Any]) -> list[Any]:
    found: list[Any] = []
    for key in ("enum", "oneOf", "anyOf"):
        value: Any = field.get(key)
        found += value if is_list(value) else []
    return found
