"""Write docs/reference/joints.md, and print the counts: `python tests/joints`. A test compares it."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])

from joints.table import PAGE, count, page

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{page()}\n{count()}\n")
