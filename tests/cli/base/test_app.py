"""Manners: where words go, how a command ends, and that no mistake shows its insides."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from types import ModuleType
from typing import Any

import click
import pytest
from inline_snapshot import snapshot

from cli_harness import Handrail, Ran, Schemas
from handrail import HandrailError
from handrail.cli import _tree
from handrail.cli._base.app import App, as_command
from handrail.cli._base.exits import Exit, Halt

VERSION = version("handrail")
BARE = [sys.executable, "-m", "handrail"]


@pytest.fixture
def add(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[App], Any]], None]:
    """Adds the command `try`, which does what a function does."""

    def add(body: Callable[[App], Any]) -> None:
        module = ModuleType("handrail.cli.commands.sample")
        module.command = as_command("try", "Try something.")(body)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(_tree.ROOT, "try", ("sample", "Try something."))

    return add


def raising(error: BaseException) -> Callable[[App], None]:
    def body(app: App) -> None:
        raise error

    return body


def shell(handrail: Handrail, line: str, env: dict[str, str] | None = None) -> Ran:
    """Run a line of bash, in which $H is the command."""
    done = subprocess.run(  # noqa: S603
        ["bash", "-c", f"H='{' '.join(BARE)}'; {line}"],  # noqa: S607
        capture_output=True,
        encoding="utf-8",
        env=handrail.environment(env or {}),
        cwd=handrail.workspace,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def test_the_version_is_that_of_the_package(handrail: Handrail) -> None:
    assert handrail.process("--version") == Ran(0, f"handrail {VERSION}\n", "")
    assert handrail("--version") == Ran(0, f"handrail {VERSION}\n", "")


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_is_data(handrail: Handrail, option: str) -> None:
    ran = handrail(option)

    assert (ran.exit, ran.err) == (0, "")
    assert ran.out.startswith("Usage: handrail [OPTIONS] COMMAND [ARGS]...\n")


@pytest.mark.parametrize("group", [[], ["tools"], ["runs"], ["config"]])
def test_a_group_without_a_command_is_a_mistake_that_shows_the_help(
    handrail: Handrail, group: list[str]
) -> None:
    ran = handrail(*group)

    assert ran == Ran(2, "", handrail(*group, "--help").out)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("tool", "handrail: unknown command 'tool'\n  did you mean `handrail tools`? see `handrail --help`\n"),
        ("tools lst", "handrail: unknown command 'lst'\n  did you mean `handrail tools list`? see `handrail tools --help`\n"),
        ("lint", "handrail: unknown command 'lint'\n  did you mean `handrail tools lint`? see `handrail --help`\n"),
        ("xyz", "handrail: unknown command 'xyz'\n  see `handrail --help`\n"),
        ("config show --origins", "handrail: unknown option `--origins`\n  did you mean `--origin`? see `handrail config show --help`\n"),
        ("config show --zzz", "handrail: unknown option `--zzz`\n  see `handrail config show --help`\n"),
        ("config show more", "handrail: got unexpected extra argument (more)\n  see `handrail config show --help`\n"),
        ("config show --max-turns", "handrail: option '--max-turns' requires an argument\n  pass `--help` to see how to use `--max-turns`\n"),
        ("config show --max-turns many", "handrail: invalid value for '--max-turns': must be an integer of at least 1, got 'many'\n  see `handrail config show --help`\n"),
        ("config show --max-turns 0", "handrail: invalid value for '--max-turns': must be an integer of at least 1, got '0'\n  see `handrail config show --help`\n"),
        ("config show --max-seconds soon", "handrail: invalid value for '--max-seconds': must be a number greater than 0, got 'soon'\n  see `handrail config show --help`\n"),
        ("tools list --provider all", "handrail: unknown option `--provider`\n  did you mean `--mode`? see `handrail tools list --help`\n"),
        ("--json config show", "handrail: unknown option `--json`\n  options go after the command, as in `handrail tools list --json`\n"),
        ("config show -C nowhere", "handrail: the workspace 'nowhere' is not a folder\n  create it, or pass another folder with `-C`\n"),
        ("completion tcsh", "handrail: invalid value for '{bash|zsh|fish}': 'tcsh' is not one of 'bash', 'zsh', 'fish'\n  see `handrail completion --help`\n"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_says_what_is_wrong_and_where_to_look(
    handrail: Handrail, schema: Schemas, line: str, told: str
) -> None:
    if "--json" not in line:
        assert handrail(*line.split()) == Ran(2, "", told)
    else:
        error = handrail(*line.split()).error
        assert f"handrail: {error['message']}\n  {error['hint']}\n" == told


@pytest.mark.parametrize(
    "asked", ["--json", "--output json", "--output=jsonl", "-o jsonl", "-ojson"]
)
def test_a_wrong_command_line_is_told_in_json_where_that_was_asked_for(
    handrail: Handrail, schema: Schemas, asked: str
) -> None:
    ran = handrail("config", "show", *asked.split(), "--origins")

    assert (ran.exit, ran.out) == (2, "")
    assert schema("error", json.loads(ran.err)) == {
        "error": {
            "code": "usage",
            "message": "unknown option `--origins`",
            "hint": "did you mean `--origin`? see `handrail config show --help`",
            "exit": 2,
        }
    }


FAILURES: dict[str, tuple[BaseException, int, str, str]] = {
    "halt": (Halt("no", code="busy", hint="wait"), 2, "busy", "handrail: no\n  wait\n"),
    "without a hint": (Halt("over", code="limit", exits=Exit.LIMIT), 5, "limit", "handrail: over\n"),
    "ours": (HandrailError("it is wrong"), 1, "failed", "handrail: it is wrong\n"),
    "a file": (
        FileNotFoundError(2, "No such file or directory", "a.txt"),
        1,
        "failed",
        "handrail: a.txt: No such file or directory\n",
    ),
    "no file": (OSError("odd"), 1, "failed", "handrail: odd\n"),
    "full": (OSError(28, "No space left on device"), 1, "failed", "handrail: No space left on device\n"),
    "a mistake of ours": (
        ZeroDivisionError("division by zero"),
        1,
        "bug",
        "handrail: ZeroDivisionError: division by zero\n  this is a bug in handrail; pass `--debug` to see where\n",
    ),
    "an extra": (
        ModuleNotFoundError("No module named 'rich'", name="rich"),
        2,
        "extra",
        "handrail: the package `rich` is not installed\n  run `pip install 'handrail[cli]'`\n",
    ),
    "no extra": (
        ModuleNotFoundError("No module named 'x'", name="x"),
        1,
        "bug",
        "handrail: ModuleNotFoundError: No module named 'x'\n  this is a bug in handrail; pass `--debug` to see where\n",
    ),
    "a group of one": (
        ExceptionGroup("tasks", [ExceptionGroup("tasks", [Halt("no", code="busy")])]),
        2,
        "busy",
        "handrail: no\n",
    ),
    "usage": (click.UsageError("not so"), 2, "usage", "handrail: not so\n  see `handrail try --help`\n"),
    "a file of click's": (
        click.FileError("a.txt", "gone"),
        2,
        "usage",
        "handrail: could not open file 'a.txt': gone\n  see `handrail --help`\n",
    ),
    "an interrupt": (KeyboardInterrupt(), 130, "interrupted", "\nhandrail: interrupted\n"),
    "escapes": (Halt("\x1b[2Jgone", code="busy", hint="\x07"), 2, "busy", "handrail: \\u{1B}[2Jgone\n  \\u{7}\n"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILURES)
def test_every_failure_is_told_in_words_and_in_json(
    handrail: Handrail, schema: Schemas, add: Callable[..., None], case: str
) -> None:
    error, code, name, told = FAILURES[case]
    add(raising(error))

    words, envelope = handrail("try"), handrail("try", "--json")

    assert words == Ran(code, "", told)
    assert (envelope.exit, envelope.out) == (code, "")
    found = schema("error", json.loads(envelope.err.splitlines()[-1]))["error"]
    assert (found["exit"], found["code"]) == (code, name)


def test_a_traceback_is_shown_where_it_was_asked_for(
    handrail: Handrail, add: Callable[..., None]
) -> None:
    add(raising(ZeroDivisionError("division by zero")))

    ran = handrail("try", "--debug")

    assert ran.err.startswith("Traceback (most recent call last):\n")
    assert ran.err.endswith("pass `--debug` to see where\n")
    assert "Traceback" not in handrail("try").err


OWNED = "\x1b]0;owned\x07\x1b[31m\u202ex"
WRITTEN_OUT = r"\u{1B}]0;owned\u{7}\u{1B}[31m\u{202E}x"


def test_a_traceback_does_nothing_to_a_terminal(
    handrail: Handrail, add: Callable[..., None]
) -> None:
    add(raising(ZeroDivisionError(OWNED)))

    ran = handrail("try", "--debug", "--color", "always")

    assert f"ZeroDivisionError: {WRITTEN_OUT}\nhandrail: " in ran.err
    assert "\x1b" not in ran.err


@pytest.mark.parametrize("color", ["always", "never"])
def test_what_is_said_does_nothing_to_a_terminal(
    handrail: Handrail, add: Callable[..., None], color: str
) -> None:
    add(lambda app: app.say(f"a{OWNED}\n\tb"))
    assert handrail("try", "--color", color).err == f"a{WRITTEN_OUT}\n→b\n"

    harmless = (
        f"{WRITTEN_OUT}\n{' ' * 20}né\t{'long ' * 9_999}."  # none of it acts, all of it stays
    )
    add(lambda app: app.say(harmless))
    assert handrail("try", "--color", color).err == f"{harmless}\n"


def test_the_name_of_a_folder_does_nothing_to_a_terminal(handrail: Handrail) -> None:
    folder = handrail.write(f"{OWNED}\nok: trusted/handrail.toml", "max_turns = 3\n").parent

    ran = handrail("config", "show", "-C", str(folder))

    assert ran.err == (
        f"ignoring {handrail.workspace}/{WRITTEN_OUT}\\u{{A}}ok: trusted/handrail.toml: not "
        "trusted, or changed since you trusted it; review it with `handrail trust`\n"
    )


def test_numbers_that_json_has_no_word_for_are_texts(
    handrail: Handrail, add: Callable[..., None]
) -> None:
    numbers = {"x": [float("nan"), {"y": float("inf")}, -float("inf"), 1.5]}
    told = {"x": ["NaN", {"y": "Infinity"}, "-Infinity", 1.5]}
    add(lambda app: app.print(numbers, []))

    for form in ("json", "jsonl"):
        assert handrail("try", "-o", form).json == told


def test_a_command_that_cannot_be_loaded_is_told_too(
    handrail: Handrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(_tree.ROOT, "try", ("no_such_command", "Try something."))

    assert handrail("try", "--json").error["code"] == "bug"


def raises_nothing(app: App) -> None:
    return


def denied(app: App) -> Exit:
    return Exit.DENIED


def test_a_command_without_a_result_is_done_and_one_with_says_how_it_ended(
    handrail: Handrail, add: Callable[..., None]
) -> None:
    add(raises_nothing)
    assert handrail("try").exit == 0
    add(denied)
    assert handrail("try").exit == 3


def speaks(app: App) -> None:
    app.print({"said": "é"}, [click.style("said", fg="red")])
    app.print_all("things", [{"a": 1}, {"a": 2}], ["one", "two"])
    app.say("by the way" if app.tints else "by the way, without colours")


def test_data_goes_to_stdout_in_the_form_that_was_asked_for_and_all_else_to_stderr(
    handrail: Handrail, add: Callable[..., None]
) -> None:
    add(speaks)

    assert handrail("try") == Ran(0, "said\none\ntwo\n", "by the way, without colours\n")
    assert handrail("try", "-q") == Ran(0, "said\none\ntwo\n", "")
    assert handrail("try", "-o", "jsonl").out == '{"said": "\\u00e9"}\n{"a": 1}\n{"a": 2}\n'
    assert handrail("try", "--json").out == snapshot(
        """\
{
  "said": "\\u00e9"
}
{
  "things": [
    {
      "a": 1
    },
    {
      "a": 2
    }
  ]
}
"""
    )


RED = ("\x1b[31msaid\x1b[0m", "by the way")
PLAIN = ("said", "by the way, without colours")


@pytest.mark.parametrize(
    ("arguments", "env", "shown"),
    [
        ([], {}, PLAIN),
        ([], {"FORCE_COLOR": "1"}, RED),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, PLAIN),
        ([], {"FORCE_COLOR": "1", "TERM": "dumb"}, RED),
        (["--color", "always"], {"NO_COLOR": "1"}, RED),
        (["--color", "never"], {"FORCE_COLOR": "1"}, PLAIN),
    ],
)
def test_colours_are_as_the_command_line_says_then_as_the_environment_does(  # noqa: PLR0917
    handrail: Handrail,
    add: Callable[..., None],
    arguments: list[str],
    env: dict[str, str],
    shown: tuple[str, str],
) -> None:
    add(speaks)

    ran = handrail("try", *arguments, env=env)

    assert (ran.out.splitlines()[0], ran.err.rstrip("\n")) == shown


SAMPLE = """
import sys
from types import ModuleType
from handrail.cli._base.app import as_command
from handrail.cli import _tree

def told(app):
    app.print({"color": app.color, "tints": app.tints, "asks": app.asks}, [])

sample = ModuleType("sample")
sample.command = as_command("try", "Try.")(told)
sys.modules["handrail.cli.commands.sample"] = sample
_tree.ROOT["try"] = ("sample", "Try.")
sys.exit(_tree.run(["try", "-o", "jsonl", *sys.argv[1:]], "0"))
"""


def in_terminal(command: list[str], env: dict[str, str]) -> str:
    """What a command shows at a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env):  # noqa: S603
        os.close(theirs)
        shown = b""
        while more := _read(ours):
            shown += more
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.parametrize(
    ("arguments", "env", "told"),
    [
        ([], {}, {"color": True, "tints": True, "asks": True}),
        (["--no-input"], {}, {"color": True, "tints": True, "asks": False}),
        ([], {"NO_COLOR": "1"}, {"color": False, "tints": False, "asks": True}),
        ([], {"TERM": "dumb"}, {"color": False, "tints": False, "asks": True}),
        (["--color", "never"], {}, {"color": False, "tints": False, "asks": True}),
    ],
)
def test_a_terminal_has_colours_and_somebody_to_ask_unless_told_otherwise(
    handrail: Handrail, arguments: list[str], env: dict[str, str], told: dict[str, bool]
) -> None:
    command = [sys.executable, "-c", SAMPLE, *arguments]

    assert json.loads(in_terminal(command, handrail.environment(env))) == told


def test_where_there_is_no_terminal_nobody_is_asked(
    handrail: Handrail, add: Callable[..., None]
) -> None:
    add(lambda app: app.print({"asks": app.asks}, []))

    assert handrail("try", "--json").json == {"asks": False}


def test_a_reader_that_goes_away_is_no_mistake(handrail: Handrail) -> None:
    ran = shell(handrail, "for n in 1 2 3; do $H config show; done | true; echo ${PIPESTATUS[0]}")
    cut = shell(
        handrail, "set -o pipefail; $H config show -o jsonl | head -1 | wc -l; $H --help | true"
    )

    assert ran.err == cut.err == ""
    assert cut.out == "1\n"


def test_a_pipe_that_breaks_inside_tasks_is_none_either(
    handrail: Handrail, add: Callable[..., None]
) -> None:
    add(raising(ExceptionGroup("tasks", [BrokenPipeError(32, "Broken pipe")])))

    assert handrail("try") == Ran(1, "", "")


@pytest.mark.parametrize(
    ("line", "code", "err"),
    [
        ("$H config show >/dev/full", 1, "handrail: No space left on device\n"),
        ("$H --help >/dev/full", 1, "handrail: No space left on device\n"),
        ("$H config show >&- <&-", 0, ""),
        ("$H config shw >&-", 2, "handrail: unknown command 'shw'\n  did you mean `handrail config show`? see `handrail config --help`\n"),
        ("$H config shw 2>&-", 2, ""),
        ("$H config shw 2>/dev/full", 2, ""),
        ("mkdir gone; cd gone; rmdir ../gone; $H config show", 1, "handrail: No such file or directory\n"),
    ],
)  # fmt: skip
def test_streams_that_are_full_or_closed_end_a_command_quietly(
    handrail: Handrail, line: str, code: int, err: str
) -> None:
    ran = shell(handrail, line)

    assert ran == Ran(code, "", err)


def test_any_text_can_be_written_to_any_stream(handrail: Handrail) -> None:
    env = {"PYTHONIOENCODING": "latin-1:strict"}

    ran = handrail.process("config", "show", "--system", "日本", env=env)

    assert (ran.exit, ran.err) == (0, "")
    assert 'system              "\\u65e5\\u672c"\n' in ran.out


def test_a_command_ends_when_it_is_told_to(handrail: Handrail) -> None:
    ends = SAMPLE.replace("app.print(", "import signal; signal.raise_signal(15); app.print(")
    interrupted = SAMPLE.replace("app.print(", "import signal; signal.raise_signal(2); app.print(")

    def run(source: str) -> Ran:
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", source], capture_output=True, encoding="utf-8", check=False
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    assert run(ends) == Ran(143, "", "")
    ran = run(interrupted)
    assert (ran.exit, ran.out, ran.error["code"]) == (130, "", "interrupted")


BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {name!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
sys.argv = ["handrail", *sys.argv[1:]]
from handrail.cli._main import main
main()
"""


def without(package: str, *arguments: str) -> Ran:
    """Run a command where a package is not installed."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", BLOCKED.format(name=package), *arguments],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def test_without_click_it_says_what_to_install() -> None:
    told = "handrail: the package `click` is not installed\n  run `pip install 'handrail[cli]'`\n"

    assert without("click", "tools", "list") == Ran(2, "", told)
    assert without("nothing", "--version") == Ran(0, f"handrail {VERSION}\n", "")


def test_a_package_that_every_installation_has_is_not_taken_for_an_extra() -> None:
    ran = without("handrail.cli._tree")
    assert "ModuleNotFoundError" not in ran.err  # the name is that of a package

    ran = without("gettext", "--version")
    assert ran.exit == 1
    assert ran.err.endswith("ModuleNotFoundError: No module named 'gettext'\n")


def test_an_interrupt_before_anything_has_begun_is_quiet() -> None:
    source = (
        BLOCKED.format(name="click")
        .replace("raise ModuleNotFoundError(", "raise KeyboardInterrupt(")
        .replace(", name=name)", ")")
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", source], capture_output=True, encoding="utf-8", check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interrupt_when_all_is_over_is_quiet_too() -> None:
    late = "import atexit, signal\natexit.register(signal.raise_signal, signal.SIGINT)\n"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", late + BLOCKED.format(name="nothing"), "--version"],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )

    assert Ran(done.returncode, done.stdout, done.stderr) == Ran(0, f"handrail {VERSION}\n", "")


def test_at_a_terminal_what_is_too_long_goes_on_below_itself(handrail: Handrail) -> None:
    def shown(system: str, width: str) -> list[str]:
        env = handrail.environment({"HANDRAIL_SYSTEM": system, "COLUMNS": width})
        return in_terminal(
            [*BARE, "config", "show", "-C", str(handrail.workspace)], env
        ).splitlines()

    assert shown("Be brief. " * 5, "46")[8:11] == [
        'system              "Be brief. Be brief. Be',
        "                    brief. Be brief. Be brief.",
        '                    "',
    ]
    assert shown("日本 " + "語" * 15, "46")[8:11] == [
        'system              "日本',
        "                    語語語語語語語語語語語語語",
        '                    語語"',
    ]
    assert shown("x" * 40, "30")[8] == f'system              "{"x" * 40}"'


def test_settings_that_nobody_knows_are_said_or_refused(handrail: Handrail) -> None:
    handrail.config.mkdir(parents=True)
    file = handrail.config / "config.toml"
    file.write_text("max_turn = 3\n", encoding="utf-8")
    told = f"{file}:1: unknown setting 'max_turn'; did you mean `max_turns`?"

    ran = handrail("config", "show")
    refused = handrail("config", "show", "--strict-config")

    assert (ran.exit, ran.err) == (0, f"{told}\n")
    assert refused == Ran(2, "", f"handrail: {told}\n  fix it, or run without `--strict-config`\n")


def test_another_folder_can_be_worked_in(handrail: Handrail) -> None:
    other = handrail.workspace / "other"
    other.mkdir()

    assert handrail("config", "show", "--json", "-C", "other").json["files"][1] == {
        "level": "project",
        "path": str(other / "handrail.toml"),
        "exists": False,
    }
