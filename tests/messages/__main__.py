"""Write docs/reference/messages.md and texts.md: `python tests/messages`. A test compares them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import anyio

from handrail import FailureKind

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])

from messages.row import Row
from messages.stage import silent_logs

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "messages.md"
TEXTS = Path(__file__).with_name("texts.md")
"""All texts. The site has them as a page of its own."""
SHOWN = 1
"""Texts of a kind that the page shows."""
PARTS = ("core", "adapters", "coding_tools")
"""Modules with a function `rows`, which runs calls and returns what a model reads."""
CHARS_PER_TOKEN = 4
BEGINNING = """\
# Failure messages and notes

Look up what a model reads when a call fails, or when handrail adds a note to a result. Each text was made by running the call. To change
them, see [errors](../guides/errors.md) and [hooks](../guides/hooks.md).

The text is in `result.text`. Your code can branch on `result.failure.kind`:

```python
from handrail import Call, Executor, Toolset, tool


@tool
def greet(name: str) -> str:
    \"\"\"Greet a person.\"\"\"
    return f"Hello {name}"


result = Executor(Toolset(greet)).run_sync(Call("greet", {"nam": "Ada"}))
print(result.text)
print(result.failure.kind)
```

```text output
Not run: invalid arguments.
- name: required, missing
- nam: unknown field; did you mean name?
Fix these and call again.
bad_args
```

Below is one text for each [kind](failure-kinds.md), which also says who acts, and for notes in results that did not fail.
[All texts](../../tests/messages/texts.md) are in a list, which a test compares with what calls return.
"""
ALL = """\
# All texts for models

What a model reads when a call fails, and the notes in results, by the kind of failure.
"""


def parts() -> list[str]:
    """Return the modules that exist."""
    return [part for part in PARTS if find_spec(f"messages.{part}")]


async def rows() -> list[Row]:
    """Run all calls, and return what a model reads."""
    return [row for part in parts() for row in await import_module(f"messages.{part}").rows()]


def page(found: list[Row]) -> str:
    """Return the page: the first texts of each kind."""
    return BEGINNING + "".join(_sections(found, SHOWN))


def all_texts(found: list[Row]) -> str:
    """Return the page with all texts."""
    return ALL + "".join(_sections(found, len(found)))


def _sections(found: list[Row], most: int) -> Iterator[str]:
    for kind in FailureKind:
        yield f"\n## {kind.value}\n"
        yield from _texts(found, kind.value, most)
    yield "\n## Notes\n"
    yield from _texts(found, "note", most)


def _texts(found: list[Row], kind: str, most: int) -> Iterator[str]:
    for row in [row for row in found if row.kind == kind][:most]:
        yield f"\n{row.when}:\n\n```text\n{row.text}\n```\n"


def cost(found: list[Row]) -> str:
    """Return what all texts together cost a model, in one line."""
    chars = sum(len(row.text) for row in found)
    return f"{len(found)} texts, {chars:,} characters, about {chars // CHARS_PER_TOKEN:,} tokens"


if __name__ == "__main__":
    with silent_logs():
        made = anyio.run(rows)
    PAGE.write_text(page(made), encoding="utf-8")
    TEXTS.write_text(all_texts(made), encoding="utf-8")
    sys.stdout.write(f"{cost(made)}\n")
