"""Run the README's first program and nothing else: needs the installed package alone."""

import re
from pathlib import Path

readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
program = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
if program is None:
    raise SystemExit("README.md has no program")
exec(compile(program[1], "README.md", "exec"), {"__name__": "first_program"})  # noqa: S102
