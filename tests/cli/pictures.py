"""Writes docs/cli/pictures: `python tests/cli/pictures.py`. Screens of a real terminal, as SVG."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from cli_harness import Handrail, made  # noqa: E402  found there
from cli_runs import run_folder  # noqa: E402
from cli_screens import Screen  # noqa: E402

FOLDER = ROOT / "docs" / "cli" / "pictures"
WIDTH = 100
FORMAT = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px;
  line-height: {line_height}px;
}}
.{unique_id}-title {{ font: bold 18px sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""As rich has it, without fonts from elsewhere."""

MODEL = """
from handrail import Call
from handrail.testing import ScriptedModel

args = {"file_path": "notes.txt", "old_string": "two", "new_string": "two!"}
model = ScriptedModel(
    ["Let me look.", Call("read", {"file_path": "notes.txt"}, "c1")],
    ["I mark the second line.", Call("edit", args, "c2")],
    "The second line is marked now.",
)
"""
RULE = {"rule": "no-force", "file": ".handrail/rules.toml", "line": 12}
MODE = {"rule": "mode ask", "file": "", "line": 0}
PUSHED = "Not run: rule 'no-force' denies it (history is not rewritten)."


def _event(at: float, event: str, call: str, **more: Any) -> dict[str, Any]:
    return {"at": at, "event": event, "call_id": call, **more}


RUN: list[dict[str, Any]] = [
    {"at": 0.0, "event": "prompt", "text": "Make the tests of parse.py pass, then push."},
    {
        "at": 2.1,
        "event": "reply",
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
        "at": 11.6,
        "event": "reply",
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


def chat(handrail: Handrail) -> list[str]:
    """A chat, after a question was answered."""
    handrail.write("notes.txt", "one\ntwo\nthree\n")
    handrail.write("model.py", MODEL)
    with Screen(handrail, width=WIDTH, height=40) as screen:
        screen.runs("chat", "--model", "model.py:model", "Mark the second line.")
        screen.types("y", after="your answer:")
        screen.shows("is marked now.\n>")
        return screen.lines(colors=True)


def runs_show(handrail: Handrail) -> list[str]:
    """The timeline of a run."""
    saved = run_folder(handrail, "20261115-112233-ab12cd")
    saved.folder.mkdir(mode=0o700, parents=True)
    prompt = RUN[0]["text"]
    saved.change_about(
        command="run", prompt=prompt, workspace="/home/ana/parser", stop="answer", why=""
    )
    saved.add_to_journal(RUN)
    return _ran(handrail, "runs", "show", "last")


def doctor(handrail: Handrail) -> list[str]:
    """What is missing, and what to do."""
    return _ran(handrail, "doctor")


def _ran(handrail: Handrail, *arguments: str) -> list[str]:
    with Screen(handrail, width=WIDTH) as screen:
        screen.runs(*arguments)
        screen.ends()
        return screen.lines(colors=True)


SCREENS: dict[str, Callable[[Handrail], list[str]]] = {
    "chat": chat,
    "runs-show": runs_show,
    "doctor": doctor,
}


def picture(name: str, lines: list[str]) -> str:
    """A screen as a picture."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for line in lines:
        console.print(Text.from_ansi(line), soft_wrap=True)
    title = f"handrail {name.replace('-', ' ')}"
    return console.export_svg(title=title, theme=DIMMED_MONOKAI, code_format=FORMAT, unique_id=name)


@contextmanager
def _anew() -> Iterator[Handrail]:
    with tempfile.TemporaryDirectory(prefix="handrail-") as folder:
        yield made(Path(folder))


def main(folder: Path) -> None:
    """Write all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, shown in SCREENS.items():
        with _anew() as handrail:
            text = picture(name, shown(handrail)).replace(str(handrail.folder), "/home/ana")
        text = "\n".join(line.rstrip() for line in text.splitlines() if line.strip())
        (folder / f"{name}.svg").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    os.environ.pop("NO_COLOR", None)
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
