"""GitHub's API as tools, searched for by the summaries of its operations.

The document is in the npm package `@octokit/openapi`, which is fetched into a temporary folder.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from handrail import Toolset
from handrail._search.index import ToolIndex
from handrail.openapi import tools

PACKAGE = "@octokit/openapi@23.0.2"
DOCUMENT = "package/generated/api.github.com.json"
LEAST_FIRST, LEAST_FIVE = 0.97, 0.995


def github_rows() -> Iterator[str]:
    document = _fetch()
    made = tools(document)
    index = ToolIndex.of(made.specs)
    asked = _unique_summaries(document, made)
    found = [(name, index.search(summary).names) for summary, name in asked.items()]
    first = sum(name in names[:1] for name, names in found) / len(found)
    five = sum(name in names for name, names in found) / len(found)
    yield f"\n{len(made):,} operations of GitHub, searched by {len(asked):,} unique summaries"
    yield f"first: {first:.1%}, at least {LEAST_FIRST:.1%}: {first >= LEAST_FIRST}"
    yield f"in the first five: {five:.1%}, at least {LEAST_FIVE:.1%}: {five >= LEAST_FIVE}"


def _fetch() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", PACKAGE]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        [archive] = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as packed:
            content = packed.extractfile(DOCUMENT)
            assert content is not None
            return json.load(content)


def _unique_summaries(document: dict[str, Any], made: Toolset) -> dict[str, str]:
    """Return the tool of each summary that only one operation has."""
    names = {spec.metadata["operation"]: spec.name for spec in made.specs}
    summaries = {
        f"{method.upper()} {path}": operation["summary"]
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if "summary" in operation
    }
    counts = Counter(summaries.values())
    return {text: names[where] for where, text in summaries.items() if counts[text] == 1}
