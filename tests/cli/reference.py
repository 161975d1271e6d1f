"""Writes docs/cli/reference.md: `python tests/cli/reference.py`. A test compares it."""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from cli_harness import Handrail, commands, groups, made  # noqa: E402  found there

PAGE = ROOT / "docs" / "cli" / "reference.md"
BEGINNING = """\
# All commands

The help of every command, without the [options that several commands share](#shared-options). Every command
takes the common ones, and a line that begins with "Also" names the others. `--help` prints all of them.
All commands share their [output formats and exit codes](output.md).

```console
$ handrail --version
handrail …
```
"""
_HEADING = re.compile(r"^(?=[A-Z][^\n]*:\n)", re.MULTILINE)
_ENTRY = re.compile(r"^(?=  \S)", re.MULTILINE)


class Part(NamedTuple):
    """A heading of a help text, and its rows. The first part has no heading."""

    heading: str
    rows: tuple[str, ...]


class Option(NamedTuple):
    """An option under its heading, whatever the width of its column."""

    heading: str
    text: str

    @property
    def name(self) -> str:
        """Its longest name."""
        return re.findall(r"--[\w-]+", self.text)[0]


_HELP = Option("Options", "-h, --help Show this message and exit.")
"""Groups of commands have it in another place."""


def page(handrail: Handrail) -> str:
    """The whole page."""
    helps = {words: _help(handrail, words) for words in sorted([*groups(), *commands()])}
    shared = _find_shared(helps.values())
    return BEGINNING + _shared_section(shared) + "".join(_sections(helps, shared))


def _help(handrail: Handrail, words: tuple[str, ...]) -> list[Part]:
    ran = handrail(*words, "--help")
    assert ran.exit == 0, ran.err
    first, *rest = _HEADING.split(ran.out.replace("Usage:", "usage:", 1))
    parts = [Part("", (first.replace("usage:", "Usage:", 1),))]
    for text in rest:
        heading, _, body = text.partition(":\n")
        parts.append(Part(heading, tuple(_ENTRY.split(body)[1:])))
    return parts


def _find_shared(helps: Iterable[list[Part]]) -> list[Option]:
    """Return the options that have the same text in at least three commands."""
    seen = Counter(
        _option(part.heading, row) for parts in helps for part in parts[1:] for row in part.rows
    )
    return [option for option, times in seen.items() if times > 2 and option.text.startswith("-")]


def _option(heading: str, row: str) -> Option:
    return Option(heading, " ".join(row.split()))


def _shared_section(shared: list[Option]) -> str:
    lines = ["\n## Shared options\n"]
    for heading in dict.fromkeys(option.heading for option in shared):
        options = [option for option in shared if option.heading == heading]
        if options != [_HELP]:
            lines.append(f"\n{heading}:\n\n| option | does |\n|---|---|\n")
            lines.extend(_table_row(option) for option in options if option != _HELP)
    return "".join(lines)


def _table_row(option: Option) -> str:
    [found] = re.findall(r"^((?:-\w, )?--[\w-]+(?: [A-Z:_]+| \[[^]]*\])?) (.*)$", option.text)
    spelled, does = found
    return f"| `{spelled.replace('|', chr(92) + '|')}` | {does} |\n"


def _sections(helps: dict[tuple[str, ...], list[Part]], shared: list[Option]) -> Iterator[str]:
    for words, parts in helps.items():
        own = "\n\n".join(text for part in parts if (text := _own(part, shared)))
        also = "".join(f"\n{line}\n" for line in [_name_shared(parts, shared)] if line)
        yield f"\n## {' '.join(['handrail', *words])}\n\n```text\n{own}\n```\n{also}"


def _name_shared(parts: list[Part], shared: list[Option]) -> str:
    """Return a line with the shared options of a command: a heading for all that it has."""
    names = []
    for part in parts:
        used = {_option(part.heading, row) for row in part.rows}
        options = [option for option in shared if option.heading == part.heading]
        if options and used.issuperset(options):
            names.append(f"*{part.heading}*")
        else:
            names.extend(f"`{option.name}`" for option in options if option in used)
    named = [name for name in names if name not in {"*Common options*", "`--help`"}]
    return f"Also: {', '.join(named)}." if named else ""


def _own(part: Part, shared: list[Option]) -> str:
    rows = [row for row in part.rows if _option(part.heading, row) not in shared]
    heading = f"{part.heading}:\n" if part.heading and rows else ""
    return (heading + "".join(rows)).strip("\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(page(made(Path(folder))), encoding="utf-8")
