"""Where tools come from, and whose code runs without being looked at first."""

from __future__ import annotations

import json
import py_compile
import sys
from pathlib import Path

import pytest

from cli_harness import Handrail, Ran
from handrail.policy import RulePaths, Trust, digest

UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH
"""Compiled code that Python runs whatever its source says."""
INSTALLED = {"PYTHONSAFEPATH": "1"}
"""What is imported is as for the installed program, which does not look into the workspace."""
ADD = '''
from handrail import tool

@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''
MANY = (
    ADD
    + '''
from handrail import Registry, Toolset

class Notes:
    @tool
    def keep(self, text: str) -> str:
        """Keep a note."""
        return text

def plain(a: int) -> int:
    """Just a function."""
    return a

NOTES = Toolset(Notes().keep)
LIVE = Registry()
LIVE.add(Toolset(add))
OBJECT = Notes()
LIST = [add, plain]
EMPTY = Toolset()
NUMBER = 3
_hidden = tool(plain)

class Lazy:
    @property
    def broken(self):
        raise ZeroDivisionError("oh")

LAZY = Lazy()
'''
)


@pytest.fixture
def many(handrail: Handrail) -> Handrail:
    handrail.write("many.py", MANY)
    return handrail


def names(handrail: Handrail, *sources: str) -> list[str]:
    given = [part for one in sources for part in ("-t", one)]
    return [one["name"] for one in handrail("tools", "list", "--json", *given).json["tools"]]


def refusal(ran: Ran) -> tuple[int, str, str, str]:
    return ran.exit, ran.error["code"], ran.error["message"], ran.error["hint"]


def trust(handrail: Handrail, *files: str) -> None:
    kept = RulePaths.of(handrail.workspace, config=handrail.config).trust
    assert kept is not None
    for name in files:
        file = handrail.workspace / name
        Trust(kept).grant(file, digest(file.read_bytes()))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("many.py", ["add", "keep"]),
        ("many.py:add", ["add"]),
        ("many.py:NOTES", ["keep"]),
        ("many.py:LIVE", ["add"]),
        ("many.py:OBJECT", ["keep"]),
        ("many.py:LIST", ["add", "plain"]),
        ("many.py:plain", ["plain"]),
        ("many.py:OBJECT.keep", ["keep"]),
        ("many:NOTES", ["keep"]),
        ("many", ["add", "keep"]),
    ],
)
def test_tools_are_found_where_a_source_says(many: Handrail, source: str, found: list[str]) -> None:
    assert names(many, source) == found


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        ("gone.py", "WS/gone.py does not exist", "use a path relative to WS, or an absolute path"),
        ("many.py:NOTS", "many.py has no 'NOTS'", "did you mean 'NOTES'?"),
        ("many.py:zzzzz", "many.py has no 'zzzzz'", "define it in many.py, or use another name"),
        (
            "many.py:OBJECT.x",
            "many.py has no 'OBJECT.x'",
            "define it in many.py, or use another name",
        ),
        ("codign", "there is no module 'codign'", "did you mean `coding`?"),
        (
            "nosuch",
            "there is no module 'nosuch'",
            "use coding, FILE.py, FILE.py:NAME or MODULE:NAME",
        ),
        ("many.py:EMPTY", "many.py:EMPTY has no tools", ""),
        ("many.py:NUMBER", "many.py:NUMBER has no tools", ""),
        (
            "",
            "an empty string is not a source of tools",
            "use coding, FILE.py, FILE.py:NAME or MODULE:NAME",
        ),
        (
            "many.py:LAZY.broken",
            "cannot load many.py:LAZY.broken: ZeroDivisionError: oh",
            "fix 'LAZY.broken' in many.py",
        ),
        (
            "many.py:Notes.keep",
            (
                "many.py:Notes.keep: WS/many.py.Notes.keep (WS/many.py:12): 'keep' is a method. Bind "
                "it, as in `Notes(...).add`, or collect an object's tools with `Toolset.from_object(obj)`."
            ),
            "",
        ),
    ],
)
def test_a_source_that_names_no_tools_is_refused_with_words(
    many: Handrail, source: str, message: str, hint: str
) -> None:
    code, kind, said, advice = refusal(many("tools", "list", "-t", source, "--json"))

    assert (code, kind, said.replace(str(many.workspace), "WS")) == (2, "tools", message)
    assert advice.replace(str(many.workspace), "WS") == hint or (not hint and advice)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import sys; sys.exit(7)", "SystemExit: 7"),
        ("import nothing_of_that_name", "No module named 'nothing_of_that_name'"),
        ("def", "SyntaxError: invalid syntax (bad.py, line 1)"),
    ],
)
def test_an_error_of_a_file_is_told_as_its_own(handrail: Handrail, text: str, said: str) -> None:
    handrail.write("bad.py", text)
    for source in ("bad.py", "bad"):
        code, kind, message, _ = refusal(handrail("tools", "list", "-t", source, "--json"))
        assert (code, kind) == (2, "tools")
        assert said in message
        assert "bad" in message


def test_what_a_file_prints_is_no_data(handrail: Handrail) -> None:
    handrail.write("loud.py", "print('hello')\n" + ADD)

    ran = handrail("tools", "list", "-t", "loud.py")
    assert (ran.out, ran.err) == ("add  write  Add two numbers.\n", "hello\n")


def test_a_file_takes_the_place_of_no_module(handrail: Handrail) -> None:
    """A file of tools may be called like a package, and a file beside it too."""
    handrail.write("json.py", ADD)
    handrail.write("email.py", "raise SystemError('the wrong one')\n")
    handrail.write("uses.py", "import email.message\n" + ADD.replace("add", "uses"))
    ran = handrail.process("tools", "list", "-t", "./json.py", "-t", "uses.py", env=INSTALLED)

    assert (ran.exit, ran.err) == (0, "")
    assert sys.modules["json"].__name__ == "json"


def test_two_files_of_one_name_are_two(handrail: Handrail) -> None:
    handrail.write("a/tools.py", ADD)
    handrail.write("b/tools.py", ADD.replace("def add", "def plus"))

    assert names(handrail, "a/tools.py", "b/tools.py") == ["add", "plus"]


def test_a_file_may_import_one_beside_it(handrail: Handrail) -> None:
    handrail.write("deep/helper.py", "WORDS = 'Help.'\n")
    handrail.write(
        "deep/tools.py",
        "import helper\nfrom handrail import tool\n\n@tool(description=helper.WORDS)\n"
        "def aid() -> str:\n    return ''\n",
    )

    assert handrail("tools", "list", "-t", "deep/tools.py").out == "aid  write  Help.\n"


def test_a_file_is_run_once_whatever_is_named_of_it(handrail: Handrail) -> None:
    handrail.write("once.py", "print('run')\n" + MANY)

    ran = handrail("tools", "list", "-t", "once.py:add", "-t", "once.py:NOTES")
    assert ran.err == "run\n"


def test_a_compiled_file_beside_a_source_is_not_run(handrail: Handrail) -> None:
    source = handrail.write("sly.py", "raise SystemError('compiled')\n")
    py_compile.compile(str(source), invalidation_mode=UNCHECKED)
    source.write_text(ADD, encoding="utf-8")

    assert names(handrail, "sly.py") == ["add"]
    assert "SystemError" in handrail.process("tools", "list", "-t", "sly").err  # as Python has it


# whose code runs


def test_code_that_a_workspace_names_runs_only_when_it_is_trusted(handrail: Handrail) -> None:
    handrail.write("own.py", "open('ran', 'w')\n" + ADD)
    handrail.write("handrail.toml", 'tools = ["own.py"]\n')
    trust(handrail, "handrail.toml")

    ran = handrail.process("tools", "list", "--json")
    assert refusal(ran) == (
        2,
        "untrusted",
        f"not running {handrail.workspace}/own.py: not trusted, or changed since you trusted it",
        "review it with `handrail trust own.py`",
    )
    assert not (handrail.workspace / "ran").exists()

    trust(handrail, "own.py")
    assert handrail.process("tools", "list").out == "add  write  Add two numbers.\n"
    assert (handrail.workspace / "ran").exists()

    handrail.write("own.py", ADD + "# changed\n")
    assert handrail.process("tools", "list").exit == 2
    assert handrail.process("tools", "list", "-t", "own.py").exit == 0  # whoever says it, means it


def test_modules_that_a_workspace_names_are_no_way_around(handrail: Handrail) -> None:
    handrail.write("pack/__init__.py", "")
    handrail.write("pack/inner.py", ADD)
    handrail.write("handrail.toml", 'tools = ["pack.inner:add"]\n')
    trust(handrail, "handrail.toml")

    def said() -> str:
        return str(handrail.process("tools", "list", "--json").error["message"])

    assert "pack/__init__.py: not trusted" in said()
    trust(handrail, "pack/__init__.py")
    assert "pack/inner.py: not trusted" in said()
    trust(handrail, "pack/inner.py")
    assert names_of(handrail.process("tools", "list", "--json")) == ["add"]


def test_each_file_that_a_workspace_names_must_be_trusted(handrail: Handrail) -> None:
    handrail.write("one.py", ADD)
    handrail.write("two/other.py", ADD.replace("def add", "def plus"))
    handrail.write("handrail.toml", 'tools = ["one.py", "two/other.py"]\n')
    trust(handrail, "handrail.toml", "one.py")

    assert "two/other.py: not trusted" in handrail.process("tools", "list").err
    trust(handrail, "two/other.py")
    assert names_of(handrail.process("tools", "list", "--json")) == ["add", "plus"]


def test_what_trusted_code_imports_must_be_trusted_too(handrail: Handrail) -> None:
    handrail.write("helper.py", "open('ran', 'w')\n")
    handrail.write("own.py", "import helper\n" + ADD)
    handrail.write("handrail.toml", 'tools = ["own.py"]\n')
    trust(handrail, "handrail.toml", "own.py")

    ran = handrail.process("tools", "list", "--json")
    assert (ran.exit, ran.error["code"]) == (2, "untrusted")
    assert ran.error["hint"] == "review it with `handrail trust helper.py`"
    assert not (handrail.workspace / "ran").exists()

    trust(handrail, "helper.py")
    assert names_of(handrail.process("tools", "list", "--json")) == ["add"]


def test_a_trusted_module_runs_from_its_source_alone(handrail: Handrail) -> None:
    source = handrail.write("helper.py", "raise SystemError('compiled')\n")
    py_compile.compile(str(source), invalidation_mode=UNCHECKED)
    source.write_text("", encoding="utf-8")
    handrail.write("own.py", "import helper\n" + ADD)
    handrail.write("handrail.toml", 'tools = ["own.py"]\n')
    trust(handrail, "handrail.toml", "own.py", "helper.py")

    assert names_of(handrail.process("tools", "list", "--json")) == ["add"]


def test_code_without_a_source_is_not_run(handrail: Handrail) -> None:
    source = handrail.write("helper.py", "")
    py_compile.compile(str(source), cfile=str(handrail.workspace / "helper.pyc"))
    source.unlink()
    handrail.write("own.py", "import helper\n" + ADD)
    handrail.write("handrail.toml", 'tools = ["own.py"]\n')
    trust(handrail, "handrail.toml", "own.py", "helper.pyc")

    assert refusal(handrail.process("tools", "list", "--json")) == (
        2,
        "untrusted",
        f"not running {handrail.workspace}/helper.pyc: not Python source",
        "install it as a package, or add its source file",
    )


def test_what_is_installed_and_folders_without_code_need_no_trust(handrail: Handrail) -> None:
    handrail.write("space/inner.py", "")
    handrail.write("own.py", "import colorsys, rich, space, handrail.testing\n" + ADD)
    handrail.write("handrail.toml", 'tools = ["own.py"]\n')
    trust(handrail, "handrail.toml", "own.py")
    whole = handrail.process("tools", "list", "--json", "-C", str(handrail.workspace))

    assert names_of(whole) == ["add"]


def test_a_workspace_around_the_interpreter_is_asked_for_its_own_alone(handrail: Handrail) -> None:
    """Where packages are installed below a workspace, they are still installed."""
    own = handrail.write("own.py", "import colorsys\n" + ADD)
    env = {"HANDRAIL_TOOLS": str(own.relative_to("/"))}

    def ran() -> Ran:
        return handrail.process("tools", "list", "--json", "-C", "/", env=env)

    assert ran().error["code"] == "untrusted"
    trust(handrail, "own.py")
    assert names_of(ran()) == ["add"]


def test_a_name_in_the_environment_is_one_of_a_folder_unless_it_is_absolute(
    handrail: Handrail,
) -> None:
    own = handrail.write("own.py", ADD)

    def ran(tools: str) -> Ran:
        return handrail.process("tools", "list", "--json", env={"HANDRAIL_TOOLS": tools})

    assert ran("own.py").error["code"] == "untrusted"
    assert names_of(ran(str(own))) == ["add"]
    assert ran("own:add").error["code"] == "untrusted"
    trust(handrail, "own.py")
    assert names_of(ran("own.py")) == names_of(ran("own:add")) == ["add"]


def test_a_users_own_settings_mean_files_beside_them(handrail: Handrail) -> None:
    handrail.write("mine.py", "raise SystemError('of the workspace')\n")
    handrail.config.mkdir(parents=True)
    (handrail.config / "mine.py").write_text(ADD, encoding="utf-8")
    settings = handrail.config / "config.toml"

    settings.write_text('tools = ["mine.py"]\n', encoding="utf-8")
    assert names_of(handrail("tools", "list", "--json")) == ["add"]
    settings.write_text('tools = ["mine:add"]\n', encoding="utf-8")  # nothing installed
    ran = handrail("tools", "list", "--json")
    assert ran.error["message"] == "there is no module 'mine'"
    assert handrail("tools", "list", "-t", "mine:add", "--json").error["message"] == (
        "cannot load mine: SystemError: of the workspace"
    )


@pytest.mark.parametrize("settings", ["handrail.toml", ".handrail/local.toml"])
def test_a_source_that_a_workspace_names_is_trusted_apart(
    handrail: Handrail, settings: str
) -> None:
    own = handrail.write("own.py", ADD)
    for source in ("own.py", str(own)):
        handrail.write(settings, f'tools = ["{source}"]\n')
        trust(handrail, settings)
        assert handrail("tools", "list", "--json").error["code"] == "untrusted"
    assert names(handrail, "own.py:add") == ["add"]


def test_a_link_is_not_what_was_trusted(handrail: Handrail, tmp_path: Path) -> None:
    there = tmp_path / "there.py"
    there.write_text(ADD, encoding="utf-8")
    (handrail.workspace / "own.py").symlink_to(there)
    handrail.write("handrail.toml", 'tools = ["own.py"]\n')
    trust(handrail, "handrail.toml", "own.py")

    ran = handrail.process("tools", "list", "--json")
    assert (ran.exit, "own.py: " in ran.error["message"]) == (2, True)
    assert names(handrail, "own.py") == ["add"]


def test_which_code_a_source_means_is_known_without_running_it(handrail: Handrail) -> None:
    for name in ("own.py", "pack/__init__.py", "pack/inner.py"):
        handrail.write(name, "raise SystemError\n")

    def code(source: str) -> list[str]:
        handrail.write("handrail.toml", f'tools = ["{source}"]\n')
        return code_to_trust(handrail)

    assert code("own.py") == code("own.py:add") == code("own:add") == ["own.py"]
    assert code("pack.inner:add") == ["pack/__init__.py", "pack/inner.py"]
    assert code("coding") == code("gone.py") == code("anthropic:some-model") == []


@pytest.mark.parametrize("source", ["~nobody_here/x.py", "a" * 5_000 + ".py", "x\0.py"])
def test_a_name_that_no_file_has(handrail: Handrail, source: str) -> None:
    def refused(*flags: str) -> None:
        ran = handrail("tools", "list", "--json", *flags)
        assert (ran.exit, ran.error["code"]) == (2, "tools")
        assert ran.error["message"].endswith(" does not exist")

    settings = f"tools = [{json.dumps(source)}]\n"
    handrail.write("handrail.toml", settings)
    assert code_to_trust(handrail) == []
    trust(handrail, "handrail.toml")
    refused()
    (handrail.workspace / "handrail.toml").unlink()
    (handrail.config / "config.toml").write_text(settings, encoding="utf-8")
    refused()
    if "\0" not in source:  # no command line has one
        refused("-t", source)


def code_to_trust(handrail: Handrail) -> list[str]:
    """The files of code that a workspace's settings name."""
    listed = handrail("trust", "--list", "--json").json["files"]
    return [one["path"] for one in listed if one["kind"] == "tools"]


def names_of(ran: Ran) -> list[str]:
    assert ran.exit == 0, ran.err
    return [one["name"] for one in ran.json["tools"]]
