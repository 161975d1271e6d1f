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

from cli_harness import Handrail, commands, made  # noqa: E402  found there

PAGE = ROOT / "docs" / "cli" / "reference.md"
BEGINNING = """\
# All commands

Every command with its arguments and options; `--help` says more. All take the common
[shared options](#shared-options), and those named behind "Also". See also
[output formats and exit codes](output.md).

```console
$ handrail --version
handrail …
```
"""
_ARGUMENTS = "Positional arguments"
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


def page(handrail: Handrail) -> str:
    """The whole page."""
    helps = {words: _help(handrail, words) for words in sorted(commands())}
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
    return [option for option, times in seen.items() if times > 2]


def _option(heading: str, row: str) -> Option:
    return Option(heading, " ".join(row.split()))


def _shared_section(shared: list[Option]) -> str:
    lines = ["\n## Shared options\n"]
    for heading in dict.fromkeys(option.heading for option in shared):
        if heading == _ARGUMENTS:  # their names say enough
            continue
        options = [option for option in shared if option.heading == heading]
        lines.append(f"\n{heading}:\n\n| option | does |\n|---|---|\n")
        lines.extend(_table_row(option) for option in options)
    return "".join(lines)


def _table_row(option: Option) -> str:
    [found] = re.findall(r"^((?:-\w, )?--[\w-]+(?: [A-Z:_]+| \[[^]]*\])?) (.*)$", option.text)
    spelled, does = found
    return f"| `{spelled.replace('|', chr(92) + '|')}` | {does} |\n"


def _sections(helps: dict[tuple[str, ...], list[Part]], shared: list[Option]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for words, parts in helps.items():
        name = " ".join(["handrail", *words])
        usage, about = _split_usage(parts[0], name)
        rest = [text for part in parts[1:] if (text := _own(part, shared))]
        same = seen.setdefault("\n\n".join([about, *rest]), name)
        own = "\n\n".join([about, *rest])
        also = "".join(f"\n{line}\n" for line in [_name_shared(parts, shared)] if line)
        text = f"```text\n{usage}{own}\n```\n{also}" if same == name else f"The same as `{same}`.\n"
        yield f"\n## {' '.join(words)}\n\n{text}"


def _split_usage(part: Part, name: str) -> tuple[str, str]:
    """Return how to call a command with arguments, and its first paragraph."""
    usage, about, *_ = part.rows[0].split("\n\n")
    arguments = usage.replace(" [OPTIONS]", "").removeprefix(f"Usage: {name}").strip()
    return f"{name} {arguments}\n\n" if arguments else "", about.strip("\n")


def _name_shared(parts: list[Part], shared: list[Option]) -> str:
    """Return a line with the shared options of a command: a heading for all that it has."""
    names = []
    for part in parts:
        used = {_option(part.heading, row) for row in part.rows}
        options = [option for option in shared if option.heading == part.heading]
        if part.heading in {"Common options", _ARGUMENTS}:
            continue
        if part.heading != "Options" and options and used.issuperset(options):
            names.append(f"*{part.heading}*")
        else:
            names.extend(f"`{option.name}`" for option in options if option in used)
    return f"Also: {', '.join(names)}." if names else ""


def _own(part: Part, shared: list[Option]) -> str:
    rows = [row for row in part.rows if _option(part.heading, row) not in shared]
    return "".join(rows).strip("\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(page(made(Path(folder))), encoding="utf-8")
