"""Print, for each category of security vectors: tried, held, skipped, and the control caught."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import schema

CATEGORIES = {"schema": schema}
DATA = Path(__file__).parent.parent / "data"


def main() -> int:
    """Run all vectors; the exit code says whether every one held and every control was caught."""
    wrong = 0
    for name, category in CATEGORIES.items():
        vectors = json.loads((DATA / f"vectors-{name}.json").read_text(encoding="utf-8"))["vectors"]
        held = sum(category.holds(vector) for vector in vectors)
        caught = category.control_caught(vectors)
        print(f"{name}: tried {len(vectors)}, held {held}, skipped 0, control caught {caught}")  # noqa: T201
        wrong += held < len(vectors) or not caught
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
