"""Writes docs/cli/pictures: `python tests/cli/pictures.py`. Screens of a real terminal, as SVG.

`--png FOLDER` makes PNG files of them there by chromium or rsvg-convert, to look at.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from rich.ansi import AnsiDecoder
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from cli_harness import Handrail, made  # noqa: E402  found there
from cli_runs import journal_run  # noqa: E402
from cli_screens import Screen  # noqa: E402
from models.stage import Answer, provider  # noqa: E402

FOLDER = ROOT / "docs" / "cli" / "pictures"
CELL, LINE, FONT, EDGE = 9.6, 20, 16, 16
"""Pixels of a column, a row, a letter and the edge."""


def _theme(ground: str, text: str, *colors: str) -> TerminalTheme:
    def rgb(name: str) -> tuple[int, int, int]:
        return int(name[:2], 16), int(name[2:4], 16), int(name[4:], 16)

    own = [rgb(name) for name in colors]
    return TerminalTheme(rgb(ground), rgb(text), own, own)


THEME = _theme(
    "16181d",
    "d6dae0",
    "16181d",
    "ff6b6b",
    "4ec9a5",
    "ffd479",
    "6cb6ff",
    "ff9bd2",
    "6cd6ff",
    "d6dae0",
)
"""A terminal's own colors: black, red, green, yellow, blue, magenta, cyan, white."""
FACE = {"HANDRAIL_PLAIN": "", "COLORTERM": "truecolor", "HANDRAIL_THEME": "dark"}
PROMPT = "Mark the second line of notes.txt."
MODEL = """
import anyio
from handrail import READ, Call, Context, Text, tool
from handrail.messages import Delta, Reply, Usage
from handrail.testing import ScriptedModel
from handrail.tools import todo

USED = Usage(input_tokens=12400, output_tokens=310)
args = {"file_path": "src/parse.py", "old_string": OLD, "new_string": NEW}
STEPS = [("read", "completed"), ("fix", "in_progress"), ("test", "pending")]
PLAN = [
    {"content": "Read the parser", "status": "completed"},
    {"content": "Yield the last row", "status": "in_progress"},
    {"content": "Add a test with a file that has no final newline", "status": "pending"},
]


def say(text, *calls):
    return Reply((Text(text), *calls), "calls" if calls else "end", USED, "gpt-5")


@tool(effect=READ)
async def import_orders(path: str, context: Context) -> str:
    \"\"\"Import orders.\"\"\"
    context.progress("1,240 of 2,000 rows", 0.62)
    await anyio.sleep_forever()


model = ScriptedModel(
    say("Let me look.", Call("read", {"file_path": "src/parse.py"}, "c1")),
    say("The loop drops the last row. I yield it.", Call("edit", args, "c2")),
)
busy = ScriptedModel(
    say("I plan it first, and start the server.", Call("todo", {"todos": PLAN}, "c1"),
        Call("bash", {"command": "sh serve.sh", "background": True}, "c2")),
    say("Now the orders.", Call("import_orders", {"path": "2026-11.csv"}, "c3")),
)
planner = ScriptedModel(
    say("I read the parser first.", Call("read", {"file_path": "src/parse.py"}, "c1")),
    say(THE_PLAN, Call("finish_plan", {}, "c2")),
)
installer = ScriptedModel(
    say("The project does not have attrs yet. I install it.",
        Call("bash", {"command": "pip install attrs"}, "c1")),
)


tools = [todo(), import_orders]
"""
PARSER = """\
def parse_rows(text: str) -> Iterator[Row]:
    row = Row()
    for char in text:
        if char == "\\n":
            yield row
            row = Row()
    return
"""
RULES = """
[[rule]]
id = "serve"
decide = "allow"
tools = ["bash"]
command = ["sh serve.sh"]
reason = "the server of this project"

[[rule]]
id = "orders"
decide = "allow"
tools = ["import_orders"]
reason = "it only reads"
"""
OLD = "    return\n"
NEW = "    if row.cells:  # no final newline\n        yield row\n"
THE_PLAN = """\
The loop yields a row only at a newline, so a file without a final one loses its **last row**.

1. In `parse_rows`, yield the row after the loop if it has cells.
2. Add a test with a file without a final newline.
3. Run `pytest tests/test_parse.py`.
"""
OVERLOADED = b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}'
RULE = {"rule": "no-force", "file": ".handrail/rules.toml", "line": 12}
MODE = {"rule": "mode ask", "file": "", "line": 0}
SECOND = 11.6
"""When the second reply came."""
PUSHED = "Not run: rule 'no-force' denies it (history is not rewritten)."


def _event(at: float, event: str, call: str, **more: Any) -> dict[str, Any]:
    return {"at": at, "event": event, "turn": 1 if at < SECOND else 2, "call_id": call, **more}


RUN: list[dict[str, Any]] = [
    {"at": 0.0, "event": "prompt", "text": "Make the tests of parse.py pass, then push."},
    {
        "at": 2.1,
        "event": "reply",
        "turn": 1,
        "seconds": 2.1,
        "model": "some-model",
        "usage": {"input_tokens": 3210, "output_tokens": 96, "cached_tokens": 2900},
        "text": "I read the parser and run its tests.",
    },
    _event(2.1, "requested", "c1", tool="bash", args={"command": "pytest -q tests/test_parse.py"}),
    _event(2.1, "decided", "c1", decision="allow", origin={"rule": "run-tests"}),
    _event(2.1, "started", "c1"),
    _event(2.2, "requested", "c2", tool="read", args={"file_path": "src/parse.py"}),
    _event(2.2, "decided", "c2", decision="allow", origin=MODE),
    _event(2.2, "waiting", "c2", on=["c1"]),
    _event(2.3, "requested", "c3", tool="edit", args={"file_path": "src/parse.py"}),
    _event(2.3, "waiting", "c3", on=["c1", "c2"]),
    _event(2.3, "asked", "c3", question="Allow `edit` to change src/parse.py?", origin=MODE),
    _event(6.4, "finished", "c1", kind="", text="1 failed, 7 passed"),
    _event(6.4, "started", "c2"),
    _event(6.6, "finished", "c2", kind="", text="def parse"),
    _event(9.8, "answered", "c3", answer="allow"),
    _event(9.8, "started", "c3"),
    _event(10.0, "finished", "c3", kind="", text="edited"),
    {
        "at": SECOND,
        "event": "reply",
        "turn": 2,
        "seconds": 1.6,
        "model": "some-model",
        "usage": {"input_tokens": 3540, "output_tokens": 61, "cached_tokens": 3200},
        "text": "It is fixed. I push it.",
    },
    _event(11.6, "requested", "c4", tool="bash", args={"command": "git push --force"}),
    _event(11.6, "decided", "c4", decision="deny", reason=PUSHED, origin=RULE),
    _event(11.6, "finished", "c4", kind="denied", text=PUSHED),
    _event(11.7, "requested", "c5", tool="web_fetch", args={"url": "https://ci.example.org/42"}),
    _event(11.7, "started", "c5"),
    _event(12.9, "attempt_failed", "c5", kind="transient", message="503 Busy", again_in=0.5),
    _event(13.4, "started", "c5"),
    _event(14.2, "finished", "c5", kind="", text="passed"),
]


def _project(handrail: Handrail) -> None:
    handrail.write("src/parse.py", PARSER)
    handrail.write("model.py", f"OLD, NEW, THE_PLAN = {OLD!r}, {NEW!r}, {THE_PLAN!r}\n{MODEL}")


def question(handrail: Handrail, screen: Screen, env: dict[str, str]) -> None:
    """A question about a change."""
    _project(handrail)
    screen.runs("chat", "--model", "model.py:model", "Why is the last row lost?", env=env)
    screen.shows("▸ y yes")


def running(handrail: Handrail, screen: Screen, env: dict[str, str]) -> None:
    """A run under way, with a plan and a job."""
    _project(handrail)
    handrail.write("serve.sh", "echo listening on port 8080\nsleep 600\n")
    handrail.config.mkdir(parents=True)
    (handrail.config / "rules.toml").write_text(RULES, encoding="utf-8")
    tools = ["--tools", "coding", "--tools", "model.py:tools", "--mode", "edits"]
    screen.runs("run", "--model", "model.py:busy", *tools, "Import the orders.", env=env)
    screen.shows("62%")


def runs_show(handrail: Handrail, screen: Screen, env: dict[str, str]) -> None:
    """The timeline of a run."""
    saved = journal_run(handrail, "20261115-112233-ab12cd")
    prompt = RUN[0]["text"]
    saved.change_about(
        command="run",
        prompt=prompt,
        workspace="/home/ana/parser",
        status="done",
        reason="answer",
        why="",
    )
    saved.add_to_journal(RUN)
    screen.runs("runs", "show", "last", env=env)
    screen.ends()


def wait(handrail: Handrail, screen: Screen, env: dict[str, str]) -> None:
    """A provider that is overloaded, in the middle of a chat."""
    _project(handrail)
    busy = Answer(status=529, body=OVERLOADED, headers={"retry-after": "20"})
    with provider(busy, busy) as stage:
        words = ["-m", "anthropic:claude-opus-5", "--base-url", stage.url]
        key = {"ANTHROPIC_API_KEY": "k", "HANDRAIL_MODEL_TRIES": "10"}
        screen.runs("chat", *words, "Why is the last row lost?", env={**env, **key})
        screen.shows("next try in")


def plan(handrail: Handrail, screen: Screen, env: dict[str, str]) -> None:
    """A plan, and the question how to go on."""
    _project(handrail)
    words = ["--model", "model.py:planner", "--mode", "plan"]
    screen.runs("chat", *words, "The last row is lost. Plan a fix.", env=env)
    screen.shows("Change the plan")


def install(handrail: Handrail, screen: Screen, env: dict[str, str]) -> None:
    """A question about an install."""
    _project(handrail)
    venv.create(handrail.workspace / ".venv")
    words = ["--model", "model.py:installer", "--mode", "edits"]
    screen.runs("chat", *words, "Use attrs for Row.", env=env)
    screen.shows("▸ n no")


def doctor(_handrail: Handrail, screen: Screen, env: dict[str, str]) -> None:
    """What is missing, and what to do."""
    screen.runs("doctor", env=env)
    screen.ends()


class Picture(NamedTuple):
    """A screen to make."""

    show: Callable[[Handrail, Screen, dict[str, str]], None]
    width: int


PICTURES = {
    "question": Picture(question, 80),
    "running": Picture(running, 80),
    "runs-show": Picture(runs_show, 100),
    "doctor": Picture(doctor, 100),
    "wait": Picture(wait, 80),
    "plan": Picture(plan, 80),
    "install": Picture(install, 80),
}


def draw(lines: Sequence[str], width: int) -> str:
    """A screen as SVG: each word has its place, so that no renderer can move it."""
    size = round(width * CELL + 2 * EDGE), len(lines) * LINE + 2 * EDGE
    shown = AnsiDecoder().decode("\n".join(lines))  # a row goes on in the style of the one above
    rows = [part for y, line in enumerate(shown) for part in _row(line, y * LINE + EDGE)]
    ground, text = THEME.background_color.hex, THEME.foreground_color.hex
    head = (
        f'<svg viewBox="0 0 {size[0]} {size[1]}" xmlns="http://www.w3.org/2000/svg">\n'
        f'<rect width="{size[0]}" height="{size[1]}" rx="8" fill="{ground}" />\n'
        f'<g fill="{text}" font-size="{FONT}" font-family="ui-monospace, \'DejaVu Sans Mono\', '
        'Menlo, Consolas, monospace">'
    )
    return "\n".join([head, *rows, "</g>\n</svg>\n"])


def _row(row: Text, y: float) -> Iterator[str]:
    spans = [(span.start, span.end, span.style) for span in row.spans]
    for start, end, style in spans:
        _, back = _colors(style)
        if back:
            x, wide = EDGE + start * CELL, (end - start) * CELL
            yield f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{LINE}" fill="{back}" />'
    bare = [(0, len(row.plain), "")] if not spans else []
    edges = sorted({0, len(row.plain), *(at for start, end, _ in spans for at in (start, end))})
    pieces = bare or [
        (start, end, next((style for a, b, style in spans if a <= start and end <= b), ""))
        for start, end in itertools.pairwise(edges)
    ]
    for start, end, style in pieces:
        yield from _words(row.plain[start:end], start, (style, y))


def _words(text: str, at: int, place: tuple[Any, float]) -> Iterator[str]:
    style, y = place
    front, _ = _colors(style)
    weight = ' font-weight="bold"' if isinstance(style, Style) and style.bold else ""
    fill = f' fill="{front}"' if front else ""
    for word in text.split(" "):
        if word:
            x, wide = EDGE + at * CELL, len(word) * CELL
            yield (
                f'<text x="{x:.1f}" y="{y + LINE - 5}" textLength="{wide:.1f}"'
                f"{fill}{weight}>{escape(word)}</text>"
            )
        at += len(word) + 1


def _colors(style: Any) -> tuple[str, str]:
    """The colors of a text and of its ground; empty if they are the terminal's own."""
    if not isinstance(style, Style):
        return "", ""
    front, back = (
        color.get_truecolor(THEME).hex if color is not None and not color.is_default else ""
        for color in (style.color, style.bgcolor)
    )
    if style.reverse:
        own = THEME.background_color.hex, THEME.foreground_color.hex
        front, back = back or own[0], front or own[1]
    if style.dim and not front:
        front = "#8d96a0"
    return front, back


def take(name: str) -> str:
    """One picture."""
    show, width = PICTURES[name]
    with _anew() as handrail, Screen(handrail, width=width, height=60) as screen:
        show(handrail, screen, FACE)
        lines = [
            line.replace(str(handrail.folder), "/home/ana") for line in screen.lines(colors=True)
        ]
    while lines and not Text.from_ansi(lines[-1]).plain.strip():
        lines.pop()
    return draw(lines, width)


@contextmanager
def _anew() -> Iterator[Handrail]:
    with tempfile.TemporaryDirectory(prefix="handrail-") as folder:
        yield made(Path(folder))


def main(folder: Path, names: Sequence[str] = ()) -> None:
    """Write pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or PICTURES:
        (folder / f"{name}.svg").write_text(take(name), encoding="utf-8")


def rasterize(folder: Path, to: Path) -> None:
    """Make a PNG of each picture."""
    to.mkdir(parents=True, exist_ok=True)
    chromium, rsvg = shutil.which("chromium"), shutil.which("rsvg-convert")
    assert chromium or rsvg, "this needs chromium or rsvg-convert: install one"
    for path in sorted(folder.glob("*.svg")):
        size = path.read_text(encoding="utf-8").split('"')[1].split()[2:]
        out = (to / path.name).with_suffix(".png")
        shot = [f"--screenshot={out}", f"--window-size={','.join(size)}", path.resolve().as_uri()]
        quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command = [rsvg, str(path), "-o", str(out)] if rsvg else [str(chromium), *quiet, *shot]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603


if __name__ == "__main__":
    os.environ.pop("NO_COLOR", None)
    words = [word for word in sys.argv[1:] if word != "--png"]
    if "--png" in sys.argv:
        rasterize(FOLDER, Path(words[0]))
    else:
        main(Path(words[0]) if words else FOLDER)
