"""Print, for each category of security vectors: tried, held, skipped, and the control caught.

Names of categories choose some of them. With ``-v``, every vector that was skipped follows, with
its reason.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

CATEGORIES = (
    "schema",
    "bash",
    "deny-rule",
    "approval",
    "display",
    "mode",
    "config",
    "hooks",
    "benign",
    "path",
    "race",
    "protected",
    "sandbox",
    "process",
    "env",
    "git",
    "search",
    "format",
    "output",
    "ssrf",
    "mcp-client",
    "mcp-server",
)
DATA = Path(__file__).parent.parent / "data"


def module(category: str) -> Any:
    """What judges a category: ``holds``, ``control_caught`` and perhaps ``SKIPPED``."""
    return import_module(f"vectors.{category.replace('-', '_')}")


def vectors(category: str) -> list[dict[str, Any]]:
    """All vectors of a category."""
    text = (DATA / f"vectors-{category}.json").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = json.loads(text)["vectors"]
    return found


def skipped(category: str) -> dict[str, str]:
    """Why a vector cannot be tried yet, by its id."""
    reasons: dict[str, str] = getattr(module(category), "SKIPPED", {})
    return reasons


def main(*options: str) -> int:
    """Run all vectors; the exit code says whether every one held and every control was caught."""
    logging.getLogger("handrail").addHandler(logging.NullHandler())  # much is meant to fail
    wrong, reasons = 0, dict[str, str]()
    chosen = [option for option in options if not option.startswith("-")]
    for name in CATEGORIES:
        if not chosen or name in chosen:
            wrong += not _try_all(name, name, vectors(name))
            reasons |= skipped(name)
    for name, found in module("more").by_category().items():
        if not chosen or name in chosen:
            wrong += not _try_all(f"more {name}", "more", found)
    if "-v" in options:
        for one, reason in reasons.items():
            print(f"skipped {one}: {reason}")  # noqa: T201
    return min(wrong, 1)


def _try_all(name: str, category: str, found: list[dict[str, Any]]) -> bool:
    left_out = skipped(category)
    tried = [one for one in found if one["id"] not in left_out]
    lost = [one for one in tried if not _holds(category, one)]
    caught = module(category).control_caught(tried)
    print(  # noqa: T201
        f"{name}: tried {len(tried)}, held {len(tried) - len(lost)}, skipped {len(left_out)}, "
        f"control caught {caught}"
    )
    for one in lost:
        print(f"  not held: {one['id']} {one.get('title', one.get('why'))}")  # noqa: T201
    return bool(caught) and not lost


def _holds(category: str, vector: dict[str, Any]) -> bool:
    try:
        return bool(module(category).holds(vector))
    except Exception:  # noqa: BLE001  a check that breaks shows nothing, and the next ones go on
        traceback.print_exc()
        return False


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parent.parent)
    sys.exit(main(*sys.argv[1:]))
