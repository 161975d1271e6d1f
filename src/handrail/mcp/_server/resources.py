"""Served resources and prompts: what an application registers, and how requests find it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from mimetypes import guess_type
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import anyio.to_thread

from handrail import READ, Access, Context, File, Image, Json, Result, Spec, Tool, ToolFailed
from handrail.messages import Prompt, Reply

READ_RESOURCE = "read_resource"
"""The tool behind a request to read, for policies and rules."""
MAX_URI_CHARS = 4_000
MAX_BYTES = 4 << 20
"""Bytes in a resource. A longer one is an error."""
_HOLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_TEXT = "text/plain"

Content: TypeAlias = str | bytes
Read: TypeAlias = Callable[..., Any]
"""Returns a text or bytes, or awaits them. Gets the values of a template as texts."""


@dataclass(frozen=True, slots=True)
class ServedResource:
    """Text or a file for clients to read.

    An address with names in braces, as in ``notes://{day}``, is a template: each name means
    one part, without ``/``.
    """

    uri: str
    content: Content | Path | Read = field(repr=False)
    """A text, bytes, a file, or a function that returns a text or bytes."""
    name: str = ""
    description: str = ""
    mime_type: str = ""

    @property
    def is_template(self) -> bool:
        """Whether the address has names in braces."""
        return _HOLE.search(self.uri) is not None

    @property
    def kind(self) -> str:
        """The media type."""
        if self.mime_type or not isinstance(self.content, Path):
            return self.mime_type or _TEXT
        return guess_type(self.content.name)[0] or "application/octet-stream"

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the values of the names if this is one of its addresses, else None."""
        pieces = _HOLE.split(self.uri)
        pattern = "".join(
            f"(?P<{piece}>[^/]+)" if index % 2 else re.escape(piece)
            for index, piece in enumerate(pieces)
        )
        found = re.fullmatch(pattern, uri) if len(uri) <= MAX_URI_CHARS else None
        return None if found is None else {k: unquote(v) for k, v in found.groupdict().items()}

    async def read(self, values: Mapping[str, str]) -> Content:
        """Return the content. Raises ToolFailed if it is too long."""
        given: Any = self.content
        if isinstance(given, Path):
            given = await anyio.to_thread.run_sync(_read_file, given)
        elif callable(given):
            given = given(**values)
            given = await given if inspect.isawaitable(given) else given
        if not isinstance(given, str | bytes):
            raise TypeError(f"The resource {self.uri!r} returned {type(given).__name__}.")
        if len(given) > MAX_BYTES:
            raise ToolFailed("The resource is too long to send.")
        return given


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError:
        raise ToolFailed("The resource cannot be read.") from None


@dataclass(frozen=True, slots=True)
class ServedPrompt:
    """A prompt for a client's user to begin with."""

    name: str
    make: Callable[..., Any] = field(repr=False)
    """Returns a text or messages, or awaits them. Its parameters are the arguments, as texts."""
    description: str = ""
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Values that clients propose for an argument."""

    @property
    def arguments(self) -> list[tuple[str, bool]]:
        """Each argument's name, and whether it is required."""
        parameters = inspect.signature(self.make).parameters.values()
        return [(one.name, one.default is inspect.Parameter.empty) for one in parameters]

    async def get(self, args: Mapping[str, str]) -> list[Prompt | Reply]:
        """Return its messages. Raises ValueError for missing or unknown arguments."""
        known = dict(self.arguments)
        missing = [name for name, required in known.items() if required and name not in args]
        unknown = [name for name in args if name not in known]
        if missing or unknown:
            what = f"needs {missing[0]!r}" if missing else f"has no argument {unknown[0]!r}"
            raise ValueError(f"The prompt {self.name!r} {what}.")
        made = self.make(**args)
        made = await made if inspect.isawaitable(made) else made
        return [Prompt.of(made)] if isinstance(made, str) else list(made)


def make_reader(resources: Sequence[ServedResource]) -> Tool[..., Any]:
    """Return the tool behind requests to read. It takes the path of every call."""

    async def read(args: dict[str, Json], _context: Context) -> Result:
        uri = str(args["uri"])
        for one in resources:
            if (values := one.match(uri)) is not None:
                return _render(uri, one.kind, await one.read(values))
        raise ToolFailed(f"There is no resource {uri!r}.")

    spec = Spec(
        name=READ_RESOURCE,
        description="Read a resource.",
        input_schema={
            "type": "object",
            "properties": {"uri": {"type": "string", "maxLength": 4_000}},
            "required": ["uri"],
        },
        effect=READ,
        max_chars=MAX_BYTES,
    )
    return Tool.remote(spec, read, origin="handrail", touches=_touch)


def _touch(*, uri: str) -> Access:
    parts = [part if part.strip(".") else part.replace(".", "%2E") for part in uri.split("/")]
    return Access(READ, f"resource:{'/'.join(parts)}")


def _render(uri: str, kind: str, content: Content) -> Result:
    if isinstance(content, str):
        return Result("", content)
    if kind.startswith("text/") or kind == "application/json":
        return Result("", content.decode(errors="replace"))
    part = Image(content, kind) if kind.startswith("image/") else File(content, kind, uri)
    return Result("", "", (part,))
