"""What a docstring tells a model: the tool's description, and a line for each parameter.

The only file that knows griffe, which is loaded when the first docstring with sections is met.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from griffe import DocstringSection

# griffe's own guess at the style parses the text three times; one look at the headings is enough.
_GOOGLE = re.compile(
    r"^[ \t]*(?:args|arguments|params|parameters|keyword args|keyword arguments|other parameters"
    r"|returns|raises|yields|examples?|notes?|warnings?):[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_WARNINGS = re.compile(r"(?<=[ \n])Warnings:(?=[ \t]*\n)")
_NUMPY = re.compile(r"^[ \t]*\w[\w ]*\n[ \t]*-{3,}[ \t]*$", re.MULTILINE)
_SPHINX = re.compile(r"^[ \t]*:\w+[^:\n]*:", re.MULTILINE)


class Described(NamedTuple):
    """A docstring, taken apart."""

    text: str = ""
    parameters: Mapping[str, str] = MappingProxyType({})


def described(doc: str | None) -> Described:
    """Take a docstring in Google, NumPy or Sphinx style apart; any other is all description."""
    if not doc:
        return Described()
    for headings, parser in ((_GOOGLE, "google"), (_NUMPY, "numpy"), (_SPHINX, "sphinx")):
        if headings.search(doc):
            # griffe expects a list of classes below "Warnings:", where people write a warning
            return _taken_apart(_sections(_WARNINGS.sub("Warning:", doc), parser))
    return Described(inspect.cleandoc(doc).strip())


def _sections(doc: str, parser: str) -> list[DocstringSection]:
    import griffe  # noqa: PLC0415  100 ms that most programs never need

    parsers: dict[str, Callable[..., list[DocstringSection]]] = {
        "google": griffe.parse_google,
        "numpy": griffe.parse_numpy,
        "sphinx": griffe.parse_sphinx,
    }
    return parsers[parser](griffe.Docstring(doc), warnings=False)


def _taken_apart(sections: Iterable[DocstringSection]) -> Described:
    parameters: dict[str, str] = {}
    kept: list[str] = []
    for section in sections:
        kind = section.kind.value
        if kind in ("parameters", "other parameters"):
            parameters.update((item.name, _one_line(item.description)) for item in section.value)
        elif kind in _RENDERED:
            kept.append(_RENDERED[kind](section))
    return Described("\n\n".join(kept).strip(), parameters)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _listed(heading: str) -> Callable[[DocstringSection], str]:
    def rendered(section: DocstringSection) -> str:
        named = (
            _one_line(f"{getattr(i, 'name', '') or ''}: {i.description}") for i in section.value
        )
        return f"{heading}: " + " ".join(one.removeprefix(": ") for one in named)

    return rendered


def _admonition(section: DocstringSection) -> str:
    heading = section.value.kind.replace("-", " ").capitalize()
    title = (section.title or "").strip()
    if title.lower().removesuffix("s") == heading.lower().removesuffix("s"):
        return f"{heading}: {section.value.contents}"
    return f"{heading}: {title}. {section.value.contents}"


# Parameters have their own place in the schema; what a tool raises is the executor's to tell.
_RENDERED: dict[str, Callable[[DocstringSection], str]] = {
    "text": lambda section: section.value,
    "admonition": _admonition,
    "examples": lambda section: "Examples:\n" + "\n".join(text for _, text in section.value),
    "returns": _listed("Returns"),
    "yields": _listed("Yields"),
    "warns": _listed("Warnings"),
}
