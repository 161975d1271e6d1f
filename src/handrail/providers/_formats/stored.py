"""Collect the messages of a stored conversation, and report what is not converted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias, cast

from handrail import Call, Failure, FailureKind, File, Image, Result, Text
from handrail.messages import Content, Message, Prompt, Reply, ToolResults, TruncatedCall
from handrail.providers._formats.history import FAILED
from handrail.providers._formats.tolerant import Data, Names, read_bytes, text_at

OnLoss: TypeAlias = Callable[[str], object]
"""Receives one line for each part of a stored conversation that is not converted."""


def ignore_loss(loss: str) -> None:
    """Ignore what is lost."""


class StoredConversation:
    """The messages of a stored conversation that were read so far."""

    def __init__(self, names: Names, on_loss: OnLoss) -> None:
        self.names = names
        self.messages: list[Message] = []
        self.at = 0
        """The index of the stored message that is being read."""
        self._on_loss = on_loss

    def read(self, messages: Iterable[object]) -> Iterator[Data]:
        """Yield the stored messages, and report values that are not messages."""
        for self.at, message in enumerate(messages):
            if isinstance(message, Mapping):
                yield cast("Data", message)
            else:
                self.lose("a value that is not an object is omitted")

    def lose(self, what: str) -> None:
        """Report something that is not converted."""
        self._on_loss(f"messages[{self.at}]: {what}")

    def omit(self, part: Data) -> list[Content]:
        """Report a part that is not converted."""
        self.lose(f"the part {text_at(part, 'type') or next(iter(part), 'unknown')!r} is omitted")
        return []

    def refer(self, kind: str, address: str) -> list[Content]:
        """Return the address of something that the message does not contain, as text."""
        self.lose(f"the {kind} {address!r} is sent as its address")
        return [Text(f"[{kind.capitalize()}: {address}]")]

    def add_prompt(self, parts: Iterable[Content]) -> None:
        """Add a prompt, unless it is empty."""
        prompt = Prompt(tuple(parts))
        self.messages += [prompt] if prompt.parts else []

    def add_reply(self, reply: Reply) -> None:
        """Add a reply, unless it is empty."""
        self.messages += [reply] if reply.parts else []

    def add_result(self, given_id: str, name: str, parts: list[Content], *, failed: bool) -> None:
        """Add a result to those of the last reply."""
        text = "".join(part.text for part in parts if isinstance(part, Text))
        media = any(not isinstance(part, Text) for part in parts)
        failure = Failure(FailureKind.FAILED, text) if failed else None
        call_id = self._call_id(given_id, name)
        result = Result(call_id, text, tuple(parts) if media else (), failure=failure)
        if self.messages and isinstance(self.messages[-1], ToolResults):
            self.messages[-1] = ToolResults((*self.messages[-1].results, result))
        else:
            self.messages.append(ToolResults((result,)))

    def _call_id(self, given_id: str, name: str) -> str:
        """Return the id of a result's call: as given, or that of the next call of this tool."""
        last = self.messages[-1] if self.messages else None
        results = last.results if isinstance(last, ToolResults) else ()
        answered = [result.call_id for result in results]
        if given_id and given_id not in answered:
            return given_id
        replies = [message for message in self.messages[-2:] if isinstance(message, Reply)]
        own_name = self.names.get(name, name)
        return next(
            (
                part.id
                for reply in replies
                for part in reply.parts
                if isinstance(part, Call | TruncatedCall)
                and part.id not in answered
                and own_name in (part.name, "")
            ),
            given_id,
        )


def read_failure(parts: list[Content]) -> tuple[list[Content], bool]:
    """Return a result without the prefix of a failure, and whether it has one."""
    first = parts[0] if parts else None
    if not isinstance(first, Text) or not first.text.startswith(FAILED):
        return parts, False
    return [Text(first.text.removeprefix(FAILED)), *parts[1:]], True


def read_media(data: object, kind: str, name: str = "") -> Image | File | None:
    """Return an image, or a file of another type. None if there are no bytes."""
    content = read_bytes(data)
    if not content:
        return None
    is_image = kind.startswith("image/") and not name
    return Image(content, kind) if is_image else File(content, kind, name)


def read_data_url(url: str, name: str = "") -> Image | File | None:
    """Return the content of a data URL, or None for any other address."""
    kind, found, data = url.removeprefix("data:").partition(";base64,")
    return read_media(data, kind, name) if found and url.startswith("data:") else None
