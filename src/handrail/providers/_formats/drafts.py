"""Reply parts under construction."""

from __future__ import annotations

from typing import Any, Literal

from handrail import Call, Image, Text
from handrail.messages import Opaque, Reasoning, ReplyPart, TruncatedCall
from handrail.providers._formats.tolerant import dump_opaque, join_surrogates

Fields = dict[str, Any]


class Pieces:
    """Text arriving in fragments."""

    __slots__ = ("_held", "_pieces")

    def __init__(self, text: str = "") -> None:
        self._pieces = [text] if text else []
        self._held = ""

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, piece: str) -> str:
        """Append a piece and return the text to show now. Half a surrogate pair is held back."""
        if not piece:
            return ""
        self._pieces.append(piece)
        ready = self._held + piece
        self._held = ready[-1:] if "\ud800" <= ready[-1:] <= "\udbff" else ""
        return join_surrogates(ready[: len(ready) - len(self._held)])

    def replace(self, text: str) -> None:
        """Replace everything received so far with this text."""
        self._pieces = [text] if text else []

    @property
    def text(self) -> str:
        """Everything received so far."""
        self._pieces = ["".join(self._pieces)]
        return join_surrogates(self._pieces[0])


class CallDraft:
    """A call under construction."""

    __slots__ = ("args", "fields", "id", "marked", "name", "outcome", "unshown")

    def __init__(self, name: str = "", args: str = "") -> None:
        self.name = name
        self.args = Pieces(args)
        self.id = ""
        self.fields: Fields = {}
        """More call fields, sent back with the call."""
        self.marked = False
        """Whether the API has reported the call as complete."""
        self.outcome: Call | TruncatedCall | None = None
        self.unshown: list[str] = []
        """Arguments to show once the call has an id."""

    def parts(self, api: str) -> list[ReplyPart]:
        """Return the call, and its fields before it."""
        return with_fields(self.fields, api, self.outcome)


class TextDraft:
    """Text or reasoning under construction."""

    __slots__ = ("content", "fields", "signature", "thought")

    def __init__(self, *, thought: bool, signature: str = "") -> None:
        self.thought = thought
        self.signature = signature
        self.content = Pieces()
        self.fields: Fields = {}

    @property
    def is_sealed(self) -> bool:
        """Whether other text must not be joined to this one."""
        return bool(self.signature or self.fields)

    def parts(self, api: str) -> list[ReplyPart]:
        """Return the text with its fields before it, or nothing if it is empty."""
        text = self.content.text
        if not self.thought:
            return with_fields(self.fields, api, Text(text) if text else None)
        return [Reasoning(text, self.signature, api)] if text or self.signature else []


class OpaqueDraft:
    """A part handrail does not read, under construction."""

    __slots__ = ("value",)

    def __init__(self, value: Fields) -> None:
        self.value = value

    def parts(self, api: str) -> list[ReplyPart]:
        """Return the part."""
        return [opaque(self.value, api)]


class ImageDraft:
    """An image, which arrives as a whole."""

    __slots__ = ("image",)

    def __init__(self, image: Image) -> None:
        self.image = image

    def parts(self, api: str) -> list[ReplyPart]:  # noqa: ARG002  the same for each draft
        """Return the image."""
        return [self.image]


def with_fields(fields: Fields, api: str, part: ReplyPart | None) -> list[ReplyPart]:
    """Return a part and its fields before it, or nothing if there is no part."""
    if part is None:
        return []
    return [opaque(fields, api, "fields"), part] if fields else [part]


def opaque(value: Fields, api: str, kind: Literal["part", "fields"] = "part") -> Opaque:
    """Return provider data as a reply part."""
    return Opaque(dump_opaque(value), api, kind)
