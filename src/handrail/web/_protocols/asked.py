"""Chat requests in any protocol: a message, or answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from handrail import Allow, Deny, Result
from handrail.permissions import Answer, Edit
from handrail.web._guard import bad

MAX_CHARS = 100_000
"""Of a message."""
MAX_FILES = 10


class WebAnswer(NamedTuple):
    """An answer, and the digest of the request the person saw."""

    answer: Answer
    seen: str
    remember: str | None = None
    """The rule to remember, as the person saw it."""


class ChatRequest(NamedTuple):
    """A message, or answers to what waits."""

    conversation: str = ""
    """Empty for a new one."""
    text: str = ""
    files: tuple[str, ...] = ()
    answers: Mapping[str, WebAnswer] = {}
    run: str = ""
    """The client's name for the run, in protocols with one."""


def read_text(value: object) -> str:
    """Return a message's text. Raises Refusal."""
    if not isinstance(value, str) or len(value) > MAX_CHARS:
        raise bad(f"A message is text of at most {MAX_CHARS:,} characters.")
    return value


def read_chat(body: Mapping[str, Any]) -> ChatRequest:
    """Read a chat request of our own protocol. Raises Refusal."""
    unknown = body.keys() - {"conversation", "text", "files"}
    if unknown:
        raise bad(f"Unknown field: {min(unknown)[:40]!r}. Send conversation, text and files.")
    files: Any = body.get("files") or []
    if not isinstance(files, list) or len(cast("tuple[Any]", files)) > MAX_FILES:
        raise bad(f"`files` is a list of at most {MAX_FILES} ids.")
    ids = tuple(cast("tuple[Any]", files))
    conversation: Any = body.get("conversation") or ""
    if not all(isinstance(one, str) for one in (conversation, *ids)):
        raise bad("Ids are texts.")
    text = read_text(body.get("text", ""))
    if not text.strip() and not ids:
        raise bad("Send `text` or `files`.")
    return ChatRequest(conversation, text, ids)


def read_answer(body: Mapping[str, Any]) -> WebAnswer:
    """Read an answer. Raises Refusal."""
    word, seen = body.get("answer"), body.get("seen", "")
    if word == "deny":
        return WebAnswer(Deny.by_user(read_text(body.get("reason", ""))), "")
    if not isinstance(seen, str) or not seen:
        raise bad("Send `seen`: the digest of the request the person saw.")
    if word == "allow":
        rule = body.get("remember")
        if rule is not None and not isinstance(rule, str):
            raise bad("`remember` is the text of an offered rule.")
        return WebAnswer(Allow(), seen, rule)
    if word == "edit" and isinstance(args := body.get("args"), dict):
        return WebAnswer(Edit(cast("dict[str, Any]", args)), seen)
    if word == "result":
        return WebAnswer(Result("", read_text(body.get("text"))), seen)
    raise bad("`answer` is allow, deny, edit with `args`, or result with `text`.")
