"""`python tests/unpinned.py [EXTRA ...]`: what `pip install 'handrail[EXTRA]'` gives a user today.

The other tests use the versions of constraints.txt. Here, each extra is installed alone, in a new
environment, with the newest versions that it allows. Then a page about it runs there.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = {
    "": "guides/results.md",
    "coding": "coding/index.md",
    "console": "production/console.md",
    "durable": "production/durable.md",
    "mcp": "guides/use-an-mcp-server.md",
    "openapi": "guides/openapi.md",
    "otel": "production/telemetry.md",
    "programs": "guides/programs.md",
    "rules": "guides/guardrails.md",
    "search": "coding/grep.md",
    "shell": "guides/shell-permissions.md",
    "skills": "guides/instructions-and-skills.md",
    "terminal": "guides/approvals.md",
}
"""A page with a program for each extra; "" is handrail alone."""
COMMANDS = {
    "acp": "handrail acp --help",
    "anthropic": 'python -c \'from handrail.models import anthropic; anthropic("m", key="k")\'',
    "cli": "handrail doctor --help",
    "console-jwt": "python -c 'import handrail.console, jwt'",
    "console-oidc": "python -c 'import handrail.net._oidc'",
    "google": 'python -c \'from handrail.models import gemini; gemini("m", key="k")\'',
    "openai": 'python -c \'from handrail.models import openai_chat; openai_chat("m", key="k")\'',
    "postgres": "python -c 'import psycopg, handrail.runs'",
    "web": "python -c 'from handrail.tools import web_fetch; web_fetch()'",
}
"""A command for each extra whose pages need a key, a browser or a server."""
BESIDE = {"otel": ["opentelemetry-sdk", f"handrail[durable] @ {ROOT.as_uri()}"]}
"""What the page about an extra tells its reader to install, too."""

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def program(page: str) -> str:
    """The Python blocks of a page as one program, which checks what they print."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    lines = ["import io, contextlib, linecache, sys, types", "page = types.ModuleType('page')"]
    lines += ["sys.modules['page'] = page"]
    for number, (fence, after) in enumerate(pairwise([*_FENCE.finditer(text), None])):
        if fence and fence["info"] == "python":
            expected = after["body"] if after and after["info"] == "text output" else ""
            name = f"<block {number}>"
            lines += [
                f"source = {fence['body']!r}",
                f"linecache.cache[{name!r}] = (1, None, source.splitlines(True), {name!r})",
                "with contextlib.redirect_stdout(io.StringIO()) as printed:",
                f"    exec(compile(source, {name!r}, 'exec'), vars(page))",
                f"assert printed.getvalue() == {expected!r}, printed.getvalue()",
            ]
    return "\n".join(lines)


def try_extra(extra: str, folder: Path) -> str:
    """Install an extra and run its page or command; return what went wrong."""
    environment = folder / (extra or "bare")
    uv = Path(sys.executable).with_name("uv")
    wanted = f"handrail[{extra}] @ {ROOT.as_uri()}" if extra else str(ROOT)
    beside = BESIDE.get(extra, [])
    steps = [
        [sys.executable, "-m", "venv", "--without-pip", str(environment)],
        [str(uv), "pip", "install", "--quiet", "--python", str(environment), wanted, *beside],
    ]
    if extra in COMMANDS:
        command = f'export PATH="{environment}/bin:$PATH"; {COMMANDS[extra]}'
        steps.append(["bash", "-c", command])
    else:
        file = folder / f"page_about_{extra or 'handrail'}.py"
        file.write_text(program(PAGES[extra]), encoding="utf-8")
        steps.append([str(environment / "bin" / "python"), str(file)])
    place = folder / f"place-of-{extra}"
    place.mkdir()
    for step in steps:
        ended = subprocess.run(  # noqa: S603 - the words are ours
            step, cwd=place, capture_output=True, text=True, timeout=600, check=False
        )
        if ended.returncode:
            return ended.stdout + ended.stderr
    return ""


def main(*extras: str) -> int:
    """Try these extras, or all; return how many failed."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for extra in extras or sorted({**PAGES, **COMMANDS}):
            problem = try_extra(extra, Path(folder))
            failed += bool(problem)
            print(f"{extra or 'handrail'}: {problem or 'works'}", flush=True)  # noqa: T201
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
