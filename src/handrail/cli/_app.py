"""What every command shares: its common options, where its output goes, and how it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NoReturn, TextIO, TypeAlias

import click

from handrail.cli._exits import Exit, Halt, alone, safe, tell
from handrail.cli._options import aside
from handrail.cli._settings import Settings, read_settings

Output: TypeAlias = Literal["text", "json", "jsonl"]
Body: TypeAlias = Callable[..., Exit | None]
"""A command: it is given the App, then its own options by name."""


@dataclass(frozen=True, kw_only=True)
class App:
    """What a command knows of its surroundings, and its way to speak."""

    workspace: Path
    output: Output = "text"
    color: bool = False
    """Of what goes to stdout."""
    tints: bool = False
    """The same, of what goes to stderr."""
    asks: bool = False
    """Whether there is somebody to ask: a person at a terminal who did not say --no-input."""
    quiet: bool = False
    strict: bool = False
    """Whether a setting that nobody knows is an error."""
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings that the command line gives; they win over all others."""

    @cached_property
    def settings(self) -> Settings:
        """All settings that count, read when they are first asked for."""
        found = read_settings(self.workspace, self.flags)
        for one in found.problems:
            if self.strict:
                raise Halt(one, code="config", hint="mend it, or leave --strict-config out")
            self.say(safe(one).replace("\n", "\\u{A}"))  # a name of a folder may have any
        return found

    @property
    def width(self) -> int | None:
        """How wide the terminal is that data goes to; None where it goes elsewhere."""
        return shutil.get_terminal_size().columns if _is_terminal(sys.stdout) else None

    def print(self, document: Mapping[str, Any], lines: Iterable[str]) -> None:
        """Give data: a document for programs, lines for people."""
        if self.output == "text":
            for line in lines:
                click.echo(line, color=self.color)
        else:
            click.echo(as_json(document, indent=2 if self.output == "json" else None))

    def print_all(
        self, kind: str, items: Iterable[Mapping[str, Any]], lines: Iterable[str]
    ) -> None:
        """Give a list of data: one document, a line of JSON for each, or words."""
        if self.output == "jsonl":
            for one in items:
                click.echo(as_json(one))
        else:
            self.print({kind: list(items)}, lines)

    def say(self, words: str) -> None:
        """Tell a person something that is not data; none of it acts on a terminal."""
        if not self.quiet:
            click.echo(safe(words), err=True)


def as_json(value: object, indent: int | None = None) -> str:
    """A document as text that any terminal and any program takes.

    JSON has no word for a number without end, and for none: these become texts.
    """
    try:
        return json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:
        plain = json.loads(json.dumps(value), parse_constant=str)
        return json.dumps(plain, indent=indent)


def as_command(name: str, summary: str, *options: click.Option) -> Callable[[Body], click.Command]:
    """Make a command of a function; its docstring is the help.

    ``options`` are those that give settings a value: see ``_options``.
    """

    def make(body: Body) -> click.Command:
        @click.pass_context
        def begin(context: click.Context, /, **given: Any) -> int:
            _take_hold()
            common = aside(context)
            app = _app(common)
            return _ended(app, lambda: body(app, **given), debug=common["debug"])

        begin.__doc__ = body.__doc__
        # options that decorators gave to the body
        begin.__click_params__ = getattr(body, "__click_params__", [])  # type: ignore[attr-defined]
        made = click.command(name, short_help=summary)(begin)
        made.params += [*options, *_common()]
        return made

    return make


def _keep(context: click.Context, option: click.Parameter, value: Any) -> None:
    """Put an option's value aside, for the App; a callback of click's."""
    aside(context)[option.name or ""] = value


def _common() -> list[click.Option]:
    """The options of every command."""

    def option(*names: str, **about: Any) -> click.Option:
        return click.Option(names, expose_value=False, callback=_keep, **about)

    return [
        option(
            "-C",
            "--workspace",
            metavar="FOLDER",
            type=click.Path(file_okay=False),
            default=".",
            help="The folder to work in.",
        ),
        option(
            "-o",
            "--output",
            type=click.Choice(["text", "json", "jsonl"]),
            default="text",
            help="How data is printed.",
        ),
        option("--json", is_flag=True, help="The same as --output json."),
        option(
            "--color",
            type=click.Choice(["auto", "always", "never"]),
            default="auto",
            help="Whether to use colours.",
        ),
        option("--no-input", is_flag=True, help="Ask nothing."),
        option("-q", "--quiet", is_flag=True, help="Print data and errors only."),
        option("--strict-config", is_flag=True, help="Take unknown settings as errors."),
        option("--debug", is_flag=True, help="Show where in the program an error comes from."),
    ]


def _take_hold() -> None:
    """What has to hold while a command works: it can be ended, and any text can be written."""
    signal.signal(signal.SIGTERM, _end)
    stdout: Any = sys.stdout
    if hasattr(stdout, "reconfigure"):  # None has not, nor what a host may put in its place
        stdout.reconfigure(errors="backslashreplace")


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    """Leave as if by the last line: everything that was opened is closed on the way."""
    sys.exit(Exit.TERMINATED)


def _app(common: dict[str, Any]) -> App:
    workspace = Path(common["workspace"])
    if not workspace.is_dir():
        raise click.UsageError(f"there is no folder {str(workspace)!r}")
    return App(
        workspace=workspace.resolve(),
        output="json" if common["json"] else common["output"],
        color=_colors(common["color"], sys.stdout),
        tints=_colors(common["color"], sys.stderr),
        asks=not common["no_input"] and _is_terminal(sys.stdin) and _is_terminal(sys.stderr),
        quiet=common["quiet"],
        strict=common["strict_config"],
        flags=common["flags"],
    )


def _colors(wanted: str, stream: TextIO | None) -> bool:
    """Whether to colour what goes to a stream; what the command line says wins."""
    if wanted != "auto":
        return wanted == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and _is_terminal(stream)


def _is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody sits there; a stream that was closed before us is None."""
    return stream is not None and stream.isatty()


def _ended(app: App, body: Callable[[], Exit | None], *, debug: bool) -> int:
    """Run a command to its end, whatever that is."""
    try:
        return body() or Exit.DONE
    except click.ClickException:
        raise  # told where the context is known
    except Exception as error:  # noqa: BLE001  told in words
        if isinstance(alone(error), BrokenPipeError):
            raise alone(error) from None  # nobody reads on: click ends us quietly
        return tell(error, as_json=app.output != "text", debug=debug)
