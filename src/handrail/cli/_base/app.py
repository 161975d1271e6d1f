"""Shared by all commands: common options, output, and how a command ends."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
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

from handrail.cli._base.exits import Exit, Halt, report_error, unwrap_group
from handrail.cli._base.options import MODEL_OPTIONS, TOOL_OPTIONS, option_store
from handrail.cli._base.printable import safe
from handrail.cli._base.settings import Settings, read_settings

Output: TypeAlias = Literal["text", "json", "jsonl"]
Body: TypeAlias = Callable[..., Exit | None]
"""A command's function. It gets the App, then the command's own options by name."""
_RUNS_COMMAND = re.compile("`(handrail runs [^`]+)`")


@dataclass(frozen=True, kw_only=True)
class App:
    """A command's environment: workspace, settings and output."""

    workspace: Path
    output: Output = "text"
    color: bool = False
    """Whether stdout gets color."""
    tints: bool = False
    """Whether stderr gets color."""
    asks: bool = False
    """Whether a person can answer: stdin and stderr are a terminal, without --no-input."""
    quiet: bool = False
    strict: bool = False
    """Whether an unknown setting is an error."""
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings from the command line. They win over all others."""
    tell: Callable[[str], None] | None = field(default=None, compare=False)
    """Prints a line for people, if something else than stderr does."""

    @cached_property
    def settings(self) -> Settings:
        """The applicable settings, read on first use."""
        settings = read_settings(self.workspace, self.flags)
        for problem in settings.problems:
            if self.strict:
                hint = "fix it, or run without `--strict-config`"
                raise Halt(problem, code="config", hint=hint)
            self.say(safe(problem).replace("\n", "\\u{A}"))  # paths may contain newlines
        return settings

    @property
    def width(self) -> int | None:
        """Terminal columns, or None if stdout is not a terminal."""
        return shutil.get_terminal_size().columns if _is_terminal(sys.stdout) else None

    def print(self, document: Mapping[str, Any], lines: Iterable[str]) -> None:
        """Print data to stdout: the document for programs, or the lines for people."""
        if self.output == "text":
            for line in lines:
                click.echo(line, color=self.color)
        else:
            click.echo(as_json(document, indent=2 if self.output == "json" else None))

    def print_all(
        self, kind: str, items: Iterable[Mapping[str, Any]], lines: Iterable[str]
    ) -> None:
        """Print a list to stdout: one document, one line of JSON per item, or lines for people."""
        if self.output == "jsonl":
            for item in items:
                click.echo(as_json(item))
        else:
            self.print({kind: list(items)}, lines)

    def say(self, message: str) -> None:
        """Print a message for people to stderr. Control characters are escaped."""
        if self.quiet:
            return
        message = self.name_database(message)
        if self.tell is None:
            click.echo(safe(message), err=True)
        else:
            for line in safe(message).split("\n"):
                self.tell(line)

    def name_database(self, text: str) -> str:
        """Return a text whose `handrail runs` commands use the database of this command.

        An address is shortened, since it may have a password.
        """
        address = self.flags.get("database")
        if not address:
            return text
        shown = "postgresql://..." if "://" in address else shlex.quote(address)
        return _RUNS_COMMAND.sub(lambda found: f"`{found[1]} --database {shown}`", text)


def as_json(value: object, indent: int | None = None) -> str:
    """Return a document as ASCII JSON. NaN and infinities become strings."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:
        plain = json.loads(json.dumps(value), parse_constant=str)
        return json.dumps(plain, indent=indent)


def as_command(name: str, summary: str, *options: click.Option) -> Callable[[Body], click.Command]:
    """Make a command from a function. Its docstring is the help.

    ``options`` are those setting a setting: see ``options``.
    """

    def make(body: Body) -> click.Command:
        @click.pass_context
        def begin(context: click.Context, /, **given: Any) -> int:
            _prepare_process()
            common = option_store(context)
            app = _app(common)
            return _run_to_end(app, lambda: body(app, **given), debug=common["debug"])

        begin.__doc__ = body.__doc__
        # options added to the body by decorators
        begin.__click_params__ = getattr(body, "__click_params__", [])  # type: ignore[attr-defined]
        command = click.command(name, cls=_Command, short_help=summary)(begin)
        command.params += [*options, *_common()]
        return command

    return make


_TOPICS = ("Options", "Tools and permissions", "Model and limits", "Common options")


class _Command(click.Command):
    """A command whose help lists options by topic."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options: the command's own, then those it shares with others."""
        topics: dict[str, list[tuple[str, str]]] = {topic: [] for topic in _TOPICS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                topics[self._topic(param, ctx)].append(record)
        for topic, records in topics.items():
            if records:
                with formatter.section(topic):
                    formatter.write_dl(records)

    def _topic(self, option: click.Parameter, ctx: click.Context) -> str:
        if option in TOOL_OPTIONS:
            return "Tools and permissions"
        if option in MODEL_OPTIONS:
            return "Model and limits"
        is_common = option.callback is _keep or option is self.get_help_option(ctx)
        return "Common options" if is_common else "Options"


def _keep(context: click.Context, option: click.Parameter, value: Any) -> None:
    """Store a common option for the App. A callback for click."""
    option_store(context)[option.name or ""] = value


def _common() -> list[click.Option]:
    """Return every command's options."""

    def option(*names: str, **attributes: Any) -> click.Option:
        return click.Option(names, expose_value=False, callback=_keep, **attributes)

    return [
        option(
            "-C",
            "--workspace",
            metavar="FOLDER",
            type=click.Path(file_okay=False),
            default=".",
            help="Folder to work in (default: the current folder).",
        ),
        option(
            "-o",
            "--output",
            type=click.Choice(["text", "json", "jsonl"]),
            default="text",
            help="Output format (default: text).",
        ),
        option("--json", is_flag=True, help="Same as --output json."),
        option(
            "--color",
            type=click.Choice(["auto", "always", "never"]),
            default="auto",
            help="When to use color (default: auto).",
        ),
        option("--no-input", is_flag=True, help="Never prompt."),
        option("-q", "--quiet", is_flag=True, help="Print only data and errors."),
        option("--strict-config", is_flag=True, help="Treat unknown settings as errors."),
        option("--debug", is_flag=True, help="Show a traceback if the command fails."),
    ]


def _prepare_process() -> None:
    """Set up the process: handle SIGTERM, silence logging, and let stdout take any text."""
    signal.signal(signal.SIGTERM, _exit_on_signal)
    log = logging.getLogger("handrail")
    if not log.handlers:  # failures are in results; log records would garble the screen
        log.addHandler(logging.NullHandler())
    stdout: Any = sys.stdout
    if hasattr(stdout, "reconfigure"):  # it may be None, or a replacement without this method
        stdout.reconfigure(errors="backslashreplace")


def _exit_on_signal(_number: int, _frame: FrameType | None) -> NoReturn:
    """Exit through the stack, closing everything opened."""
    sys.exit(Exit.TERMINATED)


def _app(common: dict[str, Any]) -> App:
    workspace = Path(common["workspace"])
    if not workspace.is_dir():
        message = f"the workspace {str(workspace)!r} is not a folder"
        raise Halt(message, code="usage", hint="create it, or pass another folder with `-C`")
    return App(
        workspace=workspace.resolve(),
        output="json" if common["json"] else common["output"],
        color=_wants_color(common["color"], sys.stdout),
        tints=_wants_color(common["color"], sys.stderr),
        asks=not common["no_input"] and _is_terminal(sys.stdin) and _is_terminal(sys.stderr),
        quiet=common["quiet"],
        strict=common["strict_config"],
        flags=common["flags"],
    )


def _wants_color(choice: str, stream: TextIO | None) -> bool:
    """Return whether to color the output to a stream. The command line wins."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and _is_terminal(stream)


def _is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal. A stream closed at the start is None."""
    return stream is not None and stream.isatty()


def _run_to_end(app: App, body: Callable[[], Exit | None], *, debug: bool) -> int:
    """Run a command and return its exit code."""
    try:
        return body() or Exit.DONE
    except click.ClickException:
        raise  # reported by the caller, which knows the context
    except Exception as error:  # noqa: BLE001  reported as text or JSON
        if isinstance(unwrap_group(error), BrokenPipeError):
            raise unwrap_group(error) from None  # click exits without a message
        if isinstance(error, Halt):
            error.hint = app.name_database(error.hint)
        return report_error(error, as_json=app.output != "text", debug=debug)
