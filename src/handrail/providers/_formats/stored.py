"""Collect a stored conversation's messages, and report parts left unconverted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias, cast

from handrail import Call, Failure, FailureKind, File, Image, Result, Text
from handrail.messages import Content, Message, Prompt, Reply, ToolResults, TruncatedCall
from handrail.providers._formats.history import FAILED
from handrail.providers._formats.tolerant import FINDER_KEY, Data, Names, read_bytes, text_at

OnLoss: TypeAlias = Callable[[str], object]
"""Receives one line for each unconverted part in a stored conversation."""


def ignore_loss(loss: str) -> None:
    """Ignore what is lost."""


class StoredConversation:
    """A stored conversation's messages read so far."""

    def __init__(self, names: Names, on_loss: OnLoss) -> None:
        self.names = names
        self.messages: list[Message] = []
        self.at = 0
        """Index of the current stored message."""
        self._on_loss = on_loss

    def read(self, messages: Iterable[object]) -> Iterator[Data]:
        """Yield the stored messages, and report other values."""
        for self.at, message in enumerate(messages):
            if isinstance(message, Mapping):
                yield cast("Data", message)
            else:
                self.lose("a value that is not an object is omitted")

    def lose(self, what: str) -> None:
        """Report an unconverted value."""
        self._on_loss(f"messages[{self.at}]: {what}")

    def omit(self, part: Data) -> list[Content]:
        """Report an unconverted part."""
        self.lose(f"the part {text_at(part, 'type') or next(iter(part), 'unknown')!r} is omitted")
        return []

    def refer(self, kind: str, address: str) -> list[Content]:
        """Return the address of something outside the message, as text."""
        self.lose(f"the {kind} {address!r} is sent as its address")
        return [Text(f"[{kind.capitalize()}: {address}]")]

    def add_prompt(self, parts: Iterable[Content]) -> None:
        """Add a prompt, unless it is empty."""
        prompt = Prompt(tuple(parts))
        self.messages += [prompt] if prompt.parts else []

    def add_reply(self, reply: Reply) -> None:
        """Add a reply, unless it is empty."""
        self.messages += [reply] if reply.parts else []

    def add_result(
        self,
        given_id: str,
        name: str,
        parts: list[Content],
        *,
        failed: bool,
        found: Iterable[str] = (),
    ) -> None:
        """Add a result to the last reply's results."""
        own = tuple(self.names.get(name, name) for name in found)
        result = _result(self._call_id(given_id, name), parts, failed=failed)._replace(found=own)
        if self.messages and isinstance(self.messages[-1], ToolResults):
            self.messages[-1] = ToolResults((*self.messages[-1].results, result))
        else:
            self.messages.append(ToolResults((result,)))

    def may_find(self, call_id: str) -> bool:
        """Whether a call can be a tool search: its tool is the finder, or no finder is named."""
        finder = self.names.get(FINDER_KEY)
        replies = [message for message in self.messages[-2:] if isinstance(message, Reply)]
        calls = [call.name for reply in replies for call in reply.calls if call.id == call_id]
        return finder is None or finder in calls

    @property
    def last_results(self) -> tuple[Result, ...]:
        """The results in the last message, if it has any."""
        last = self.messages[-1] if self.messages else None
        return last.results if isinstance(last, ToolResults) else ()

    def fill_result(self, call_id: str, parts: list[Content], *, failed: bool) -> None:
        """Set the content of a result left empty so far."""
        full = _result(call_id, parts, failed=failed)
        results = (
            full._replace(found=one.found) if one.call_id == call_id else one
            for one in self.last_results
        )
        self.messages[-1] = ToolResults(tuple(results))

    def _call_id(self, given_id: str, name: str) -> str:
        """Return a result's call id: as passed, or from the tool's next call."""
        answered = [result.call_id for result in self.last_results]
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


def _result(call_id: str, parts: list[Content], *, failed: bool) -> Result:
    text = "".join(part.text for part in parts if isinstance(part, Text))
    media = any(not isinstance(part, Text) for part in parts)
    failure = Failure(FailureKind.FAILED, text) if failed else None
    return Result(call_id, text, tuple(parts) if media else (), failure=failure)


def read_failure(parts: list[Content]) -> tuple[list[Content], bool]:
    """Return a result without its failure prefix, and whether it had one."""
    first = parts[0] if parts else None
    if not isinstance(first, Text) or not first.text.startswith(FAILED):
        return parts, False
    return [Text(first.text.removeprefix(FAILED)), *parts[1:]], True


def read_media(data: object, kind: str, name: str = "") -> Image | File | None:
    """Return an image, or a file for other types, or None without bytes."""
    content = read_bytes(data)
    if not content:
        return None
    is_image = kind.startswith("image/") and not name
    return Image(content, kind) if is_image else File(content, kind, name)


def read_data_url(url: str, name: str = "") -> Image | File | None:
    """Return a data URL's content, or None for any other address."""
    kind, found, data = url.removeprefix("data:").partition(";base64,")
    return read_media(data, kind, name) if found and url.startswith("data:") else None
