"""Parse a docstring into the tool's description and a line for each parameter.

The only file that imports griffe. It is loaded for the first docstring with more than a
description and plain arguments.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from griffe import DocstringSection

# griffe guesses the style by parsing the text three times; the headings are enough.
_GOOGLE = re.compile(
    r"^[ \t]*(?:args|arguments|params|parameters|keyword args|keyword arguments|other parameters"
    r"|returns|raises|yields|examples?|notes?|warnings?):[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_WARNINGS = re.compile(r"(?<=[ \n])Warnings:(?=[ \t]*\n)")
_NUMPY = re.compile(r"^[ \t]*\w[\w ]*\n[ \t]*-{3,}[ \t]*$", re.MULTILINE)
_SPHINX = re.compile(r"^[ \t]*+:\w[^:\n]*+:", re.MULTILINE)
_ARGUMENT = re.compile(r"    (\w+): +(\S.*)")
_CONTINUED = re.compile(r" {5,}\S")
_Style: TypeAlias = Literal["google", "numpy", "sphinx"]
_STYLES: tuple[tuple[re.Pattern[str], _Style], ...] = (
    (_GOOGLE, "google"),
    (_NUMPY, "numpy"),
    (_SPHINX, "sphinx"),
)


class ParsedDocstring(NamedTuple):
    """A docstring's parts."""

    text: str = ""
    parameters: Mapping[str, str] = MappingProxyType({})


def parse_docstring(doc: str | None) -> ParsedDocstring:
    """Parse a docstring in Google, NumPy or Sphinx style. Any other is all description."""
    if not doc:
        return ParsedDocstring()
    if (plain := _read_plain(doc)) is not None:
        return plain
    for headings, style in _STYLES:
        if headings.search(doc):
            # griffe expects a list of classes below "Warnings:", but people write text there
            return _collect_sections(_sections(_WARNINGS.sub("Warning:", doc), style))
    return ParsedDocstring(inspect.cleandoc(doc).strip())


def _read_plain(doc: str) -> ParsedDocstring | None:
    """Read the most usual form: text without indented lines, then arguments without types."""
    text, _, listed = inspect.cleandoc(doc).partition("\n\nArgs:\n")
    if not listed or len(_GOOGLE.findall(doc)) != 1 or "\n " in text or "```" in text:
        return None
    parameters: dict[str, str] = {}
    name = ""
    for line in listed.split("\n"):  # no other character ends a line
        if (found := _ARGUMENT.fullmatch(line)) is not None:
            name = found[1]
            parameters[name] = _one_line(found[2])
        elif name and _CONTINUED.match(line):
            parameters[name] += f" {_one_line(line)}"
        else:
            return None
    return ParsedDocstring(text.strip(), parameters)


def _sections(doc: str, style: _Style) -> list[DocstringSection]:
    import griffe  # 100 ms that most programs never need

    return griffe.Docstring(doc).parse(style, warnings=False)


def _collect_sections(sections: Iterable[DocstringSection]) -> ParsedDocstring:
    parameters: dict[str, str] = {}
    kept: list[str] = []
    for section in sections:
        kind = section.kind.value
        if kind in ("parameters", "other parameters"):
            parameters.update((item.name, _one_line(item.description)) for item in section.value)
        elif kind in _RENDERED:
            kept.append(_RENDERED[kind](section))
    return ParsedDocstring("\n\n".join(kept).strip(), parameters)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _list_under(heading: str) -> Callable[[DocstringSection], str]:
    def render(section: DocstringSection) -> str:
        named = (
            _one_line(f"{getattr(i, 'name', '') or ''}: {i.description}") for i in section.value
        )
        return f"{heading}: " + " ".join(line.removeprefix(": ") for line in named)

    return render


def _admonition(section: DocstringSection) -> str:
    heading = section.value.kind.replace("-", " ").capitalize()
    title = (section.title or "").strip()
    if title.lower().removesuffix("s") == heading.lower().removesuffix("s"):
        return f"{heading}: {section.value.contents}"
    return f"{heading}: {title}. {section.value.contents}"


# Parameters are in the schema. The executor reports what a tool raises.
_RENDERED: dict[str, Callable[[DocstringSection], str]] = {
    "text": lambda section: section.value,
    "admonition": _admonition,
    "examples": lambda section: "Examples:\n" + "\n".join(text for _, text in section.value),
    "returns": _list_under("Returns"),
    "yields": _list_under("Yields"),
    "warns": _list_under("Warnings"),
}
