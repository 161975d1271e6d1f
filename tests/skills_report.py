"""Count how many skills of a collection are read, and what is wrong with the others.

python tests/skills_report.py FOLDER
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

from handrail.agent import find_skills

_DETAIL = re.compile(r"line \d+: |the name '.*' (?=differs)")
"""Parts of a message that differ from file to file."""
_ORDER = ("skipped", "lenient", "invisible", "escaped")


def main(folder: Path) -> None:
    """Print the counts, the most frequent first."""
    files = sorted(folder.rglob("SKILL.md"))
    read, counts = 0, Counter[tuple[str, str]]()
    for file in files:
        found = find_skills(user=[file.parent])
        read += len(found.skills)
        counts.update({(one.kind, _DETAIL.sub("", one.message)) for one in found.notices})
    rows = sorted(counts.items(), key=lambda row: (_ORDER.index(row[0][0]), -row[1], row[0]))
    lines = [f"{count:,} {kind}: {message}" for (kind, message), count in rows]
    print(f"{len(files):,} SKILL.md files, {read:,} read", *lines, sep="\n")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
