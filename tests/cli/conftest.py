"""What every test of the command line may rely on.

`handrail("tools", "list")` runs a command in this process and gives `Ran(exit, out, err)`, with
`.json`, `.lines` and `.error` of them; `handrail.process(...)` runs it in one of its own;
`handrail.write("handrail.toml", ...)` writes a file of the workspace. `schema("tools-list", ran.json)`
validates a document, or with `part="line"` a line, and gives it back. The types are in `cli_harness`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_harness import Handrail, Schemas, made


@pytest.fixture
def handrail(tmp_path: Path) -> Handrail:
    """The command, in an empty workspace, with an empty home."""
    return made(tmp_path)


@pytest.fixture
def schema() -> Schemas:
    """Validates a document against the published schema of a command."""
    return Schemas()
