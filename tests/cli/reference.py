"""Writes docs/cli/reference.md: `python tests/cli/reference.py`. A test compares it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from cli_harness import Handrail, commands, groups, made  # noqa: E402  found there

PAGE = ROOT / "docs" / "cli" / "reference.md"
BEGINNING = """\
# All commands

The help of every command, as `--help` prints it on 80 columns. All commands share
their [output formats and exit codes](output.md).

```console
$ handrail --version
handrail …
```
"""


def page(handrail: Handrail) -> str:
    """The whole page."""
    return BEGINNING + "".join(_sections(handrail))


def _sections(handrail: Handrail) -> Iterator[str]:
    for words in sorted([*groups(), *commands()]):
        ran = handrail(*words, "--help")
        assert ran.exit == 0, ran.err
        yield f"\n## {' '.join(['handrail', *words])}\n\n```text\n{ran.out}```\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(page(made(Path(folder))), encoding="utf-8")
