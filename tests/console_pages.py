"""Pages with commands: runs every command of a page, and compares what it prints with the page.

A fence opened with ```` ```console ```` whose first command is `handrail` or `python` is run by bash,
line by line, in one workspace for each page. The lines below a command are its output; `…` means
anything, or any number of lines if it is alone on a line. On a tutorial, a fence opened with
```` ```text ```` that begins with `$ ` runs in a real terminal: the page shows the prompts, and what a
person types after them. Files come first: fences opened with ```` ```python title="FILE" ```` or
```` ```text title="FILE" ````, or whose first line is a comment with the name of a file.

`python tests/console_pages.py PAGE...` rewrites the outputs that differ. Read the diff.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import forked
import tiny_server
from cli_harness import Handrail, made
from cli_screens import Screen

DOCS = Path(__file__).parents[1] / "docs"
TUTORIALS = [
    DOCS / "get-started" / f"{name}.md" for name in ("agent-with-approvals", "coding-agent")
]
BIN = Path(sys.executable).parent
_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLED = re.compile(r'(?:text|python) title="(?P<name>[^"]+)"')
_NAMED = re.compile(r"# (?P<name>[\w./-]+\.(?:py|toml|md|jsonl?))\n")
_RUNS = re.compile(r"\$ (?:\w+=\S+ )*(?:handrail|python (?!tiny\.py))")
_COMMAND = re.compile(r"^\$ (?P<line>.*)\n(?P<shown>(?:(?!\$ ).*\n)*)", re.MULTILINE)
_PROMPTS = [re.compile(prompt) for prompt in (">", "┃ your answer:", r"┃ What should .*? \(.*?\)")]
_TYPED = re.compile(
    rf"^(?P<prompt>{'|'.join(prompt.pattern for prompt in _PROMPTS)}) (?P<text>.+)$", re.MULTILINE
)
_SECONDS = r"(?:[\d.]+ m?s|\d+m(?: \d+s)?)"
_TOOK = re.compile(rf" {{2,}}(\S(?:(?! {{2}}).)*?)(?: · {_SECONDS})?  (#\d+)$", re.MULTILINE)
"""The end of a call's row: how it ended, how long it took, and its number."""


class File(NamedTuple):
    """A file that a page shows."""

    name: str
    text: str


class Command(NamedTuple):
    """A command that a page shows, and its output."""

    line: str
    shown: str
    start: int
    """Where the output begins in the page."""
    interactive: bool = False


def steps(text: str, *, tutorial: bool = False) -> Iterator[File | Command]:
    """Return what a page does, in order."""
    for fence in _FENCE.finditer(text):
        info, body = fence["info"], fence["body"]
        named = _NAMED.match(body)
        if titled := _TITLED.fullmatch(info):
            yield File(titled["name"], body)
        elif info == "console" and _RUNS.match(body):
            for found in _COMMAND.finditer(body):
                start = fence.start("body") + found.start("shown")
                yield Command(found["line"], found["shown"], start)
        elif tutorial and info == "text" and _RUNS.match(body):
            line, _, shown = body.removeprefix("$ ").partition("\n")
            yield Command(line, shown, fence.end("body") - len(shown), interactive=True)
        elif named and info in {"text", "python"}:
            yield File(named["name"], body)


def fits(shown: str, printed: str) -> bool:
    """Tell whether this was printed; … is anything on its line, or any lines.

    How long something took is no part of it: a page has no such time, and a busy machine shows one.
    """
    lines = [
        r"(?:.*\n)*" if line == "…\n" else re.escape(line).replace("…", ".*")
        for line in _TOOK.sub(r"  \1  \2", shown).splitlines(keepends=True)
    ]
    return re.fullmatch("".join(lines), _TOOK.sub(r"  \1  \2", printed)) is not None


def run(handrail: Handrail, line: str, before: int, env: Mapping[str, str]) -> tuple[int, str]:
    """Run a command after one that ended with `before`; return its exit code and its output."""
    done = subprocess.run(  # noqa: S603
        ["bash", "-c", f"(exit {before}); {line}"],  # noqa: S607
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        env=handrail.environment({**env, "HANDRAIL_MODEL_TRIES": None}),
        cwd=handrail.workspace,
        check=False,
    )
    return done.returncode, done.stdout


def play(handrail: Handrail, command: Command, env: Mapping[str, str]) -> str:
    """Run a command in a terminal, type what the page shows, and return what is on the screen."""
    with Screen(handrail, width=100, height=100, patience=300) as screen:
        screen.runs_line(command.line, env=env)
        for typed in _TYPED.finditer(command.shown):
            [prompt] = [one for one in _PROMPTS if one.fullmatch(typed["prompt"])]
            screen.answers(typed["text"], prompt=prompt)
        screen.ends()
        return "".join(f"{line}\n" for line in screen.lines())


def outcomes(
    text: str,
    handrail: Handrail,
    *,
    env: Mapping[str, str] = {},
    tutorial: bool = False,
    real: bool = False,
) -> Iterator[tuple[Command, str]]:
    """Run the commands of a page; return each with its output, in a home that has a fixed name.

    A `real` command is the installed one, and so is one in a terminal. The others need no imports:
    see `forked`.
    """
    path = os.pathsep.join([str(BIN), os.environ["PATH"]])
    env, code = {"PATH": path, **tiny_server.untraced(), **env}, 0
    quick = {} if real else {"PATH": os.pathsep.join([str(forked.path()), path])}
    for step in steps(text, tutorial=tutorial):
        if isinstance(step, File):
            handrail.write(step.name, step.text)
            continue
        if step.interactive:
            printed = play(handrail, step, env)
        else:
            code, printed = run(handrail, step.line, code, {**env, **quick})
        printed = printed.replace(str(handrail.workspace), "/home/ana/project")
        yield step, printed.replace(str(handrail.folder), "/home/ana")


def differences(text: str, done: Iterable[tuple[Command, str]]) -> list[str]:
    """Return the commands of a page whose output is not what the page shows."""
    return [
        f"line {text.count(chr(10), 0, command.start)}: $ {command.line}\n{printed}"
        for command, printed in done
        if not fits(command.shown, printed)
    ]


@contextmanager
def short_home() -> Iterator[Handrail]:
    """Provide a home whose path is always as long: it decides where a terminal breaks lines."""
    with tempfile.TemporaryDirectory(prefix="handrail-", dir="/tmp") as folder:
        yield made(Path(folder))


def play_tutorial(
    text: str, tiny: tiny_server.Tiny, most: int | None = None
) -> list[tuple[Command, str]]:
    """Run a tutorial's first commands with a model server; return each with its output."""
    with short_home() as handrail:
        handrail.write(tiny_server.NAME, tiny_server.source())
        return [*islice(outcomes(text, handrail, env=tiny.env, tutorial=True, real=True), most)]


def update(page: Path) -> None:
    """Rewrite the outputs of a page that differ."""
    text = page.read_text(encoding="utf-8")
    if page.resolve() in TUTORIALS:
        with tempfile.TemporaryDirectory() as folder, tiny_server.running(Path(folder)) as tiny:
            done = play_tutorial(text, tiny)
    else:
        with short_home() as handrail:
            done = [*outcomes(text, handrail)]
    for command, printed in reversed(done):
        if fits(command.shown, printed):
            continue
        sys.stdout.write(f"{page.name}: $ {command.line}\n")
        if "…\n" in command.shown.splitlines(keepends=True):
            sys.stdout.write(f"{printed}(not rewritten: the page leaves out lines)\n")
            continue
        end = command.start + len(command.shown)
        text = text[: command.start] + mask(command.shown, printed) + text[end:]
    page.write_text(text, encoding="utf-8")


def mask(shown: str, printed: str) -> str:
    """Return what was printed, with the lines of the page that have … and still fit."""
    masked = [line for line in shown.splitlines(keepends=True) if "…" in line]
    lines = printed.splitlines(keepends=True)
    return "".join(next((one for one in masked if fits(one, line)), line) for line in lines)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        update(Path(name))
