"""What a shell keeps between commands, what it never keeps, and that rules see where a line runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from handrail import Call, Executor, FailureKind, Result, Toolset
from handrail.policy import Rulebook
from handrail.sandbox import Sandbox
from handrail.tools import Shell, bash
from tools.shell.stage import executor, run, timeless

pytestmark = pytest.mark.anyio


async def said(
    root: Path, *commands: str | dict[str, Any], shell: Shell | None = None
) -> list[str]:
    """What a model reads of commands, one turn each."""
    texts: list[str] = []
    async with executor(root, shell=shell or Shell()) as one:
        for command in commands:
            args = {"command": command} if isinstance(command, str) else command
            texts.append(timeless((await one.run(Call("bash", args, "c1"))).text))
    return texts


def standing(folder: str) -> Shell:
    """A shell that was left in a folder."""
    shell = Shell()
    shell._folder = folder  # noqa: SLF001
    return shell


async def test_the_folder_and_variables_are_kept_until_a_restart(tmp_path: Path) -> None:
    shell = Shell()
    texts = await said(
        tmp_path,
        "mkdir -p 'a b/c'; cd 'a b/c'; export NAME='two  words' PLAIN=1; unexported=2",
        'echo "$NAME $PLAIN ${unexported-gone}"; basename "$PWD"',
        "cd ..; false",
        {"command": "basename $PWD; unset NAME"},
        "echo ${NAME-gone} $PLAIN",
        {"restart": True},
        "echo ${PLAIN-gone}; [ -d 'a b' ] && echo back",
        shell=shell,
    )

    assert texts == snapshot(
        [
            """\
(no output)
[exit code 0, N s, folder a b/c]\
""",
            """\
two  words 1 gone
c
[exit code 0, N s, folder a b/c]\
""",
            """\
(no output)
[exit code 1, N s, folder a b]\
""",
            """\
a
[exit code 0, N s, folder a b]\
""",
            """\
gone 1
[exit code 0, N s, folder a b]\
""",
            "The folder and variables of earlier commands were reset.",
            """\
gone
back
[exit code 0, N s]\
""",
        ]
    )
    assert [shell.folder, dict(shell.variables)] == ["", {}]


async def test_a_restart_may_come_with_a_command(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()

    assert await said(
        tmp_path, "cd a", {"command": "[ -d a ] && echo back", "restart": True}
    ) == snapshot(
        [
            """\
(no output)
[exit code 0, N s, folder a]\
""",
            """\
back
[exit code 0, N s]\
""",
        ]
    )


STAYS = {
    "cd /": "out of the workspace",
    "ln -s / out; cd out/etc": "through a link",
    "cd a; rm -r ../a": "a folder that is gone",
    "mkdir $'a\\nb'; cd $'a\\nb'": "a name that cannot be shown",
    "(cd a)": "in a subshell",
    "cd a; kill -9 $$": "no time to note it",
    "cd a; trap - EXIT": "nobody notes it",
    "cd a; exec true": "another program",
    r"printf '\0/etc\0X=1\0' >&$handrail_fd; trap - EXIT": "a lie about a folder outside",
    r"printf 'junk' >&$handrail_fd; trap - EXIT": "junk",
}


@pytest.mark.parametrize("command", STAYS)
async def test_no_folder_is_kept_that_cannot_be_trusted(tmp_path: Path, command: str) -> None:
    (tmp_path / "a").mkdir()
    shell = Shell()
    await said(tmp_path, command, shell=shell)

    assert shell.folder == ""


async def test_a_link_within_the_workspace_is_kept_as_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    shell = Shell()
    await said(tmp_path, "ln -s real link; cd link", shell=shell)

    assert shell.folder == "real"


HERE = "printf '\\0%s' \"$PWD\""
FORGED = {
    "a value that looks like an address": f"{HERE}; printf '\\0A='; repeat 250000 a; printf '\\0'",
    "many values that do": (
        f"{HERE}; a=$(repeat 3990 a); for i in {{1..64}}; do printf '\\0A%s=%s' $i $a; done"
    ),
    "many variables": f"{HERE}; repeat 80000 @A=",
    "a long path": f"{HERE}; repeat 60000 /a; printf '\\0'",
    "a long path that is there": f"{HERE}; repeat 800 /a/..; printf '\\0'",
    "a chain of links": f"{HERE}; printf '/l0\\0'",
    "many jobs": "repeat 120000 '1 '; printf '\\0'",
}


@pytest.mark.parametrize("which", FORGED)
async def test_forged_notes_break_nothing_and_take_no_time(tmp_path: Path, which: str) -> None:
    """A command may write where the shell notes what it leaves: as much as it likes."""
    (tmp_path / "a").mkdir()
    for number in range(1_500):
        (tmp_path / f"l{number}").symlink_to(f"l{number + 1}")
    shell = Shell()
    repeat = 'repeat() { yes "$2" | head -n $1 | tr -d "\\n" | tr @ "\\0"; }'
    [text] = await said(
        tmp_path, f"{repeat}; {{ {FORGED[which]}; }} >&$handrail_fd; kill -9 $$", shell=shell
    )

    assert text.endswith("[exit code 137 (SIGKILL), N s]")
    assert shell.folder == ""


ODD = [
    "cd  ./\\; ls",
    "cd  ./a\\ b; ls",
    "cd  ''; ls",
    "cd  ./'; ls",
    "cd  ./é; ls",
    "cd  './a; ls",
]


@pytest.mark.parametrize("command", ODD)
async def test_a_line_that_only_looks_like_the_hooks_is_run(tmp_path: Path, command: str) -> None:
    [text] = await said(tmp_path, command)

    assert "[exit code " in text


NAMES = "LD_PRELOAD BASH_ENV PATH GIT_EXTERNAL_DIFF PYTHONPATH NODE_OPTIONS PAGER EDITOR IFS PWD CI".split()


async def test_variables_that_steer_programs_are_not_kept(tmp_path: Path) -> None:
    shell = Shell()
    exports = "; ".join(f"export {name}=/x" for name in NAMES)
    await said(tmp_path, f"export FINE=1; {exports}", shell=shell)

    assert dict(shell.variables) == {"FINE": "1"}


async def test_a_model_reads_which_of_its_variables_do_not_last(tmp_path: Path) -> None:
    texts = await said(
        tmp_path, "export A=1 PATH=$PWD/bin:$PATH", "export TZ=UTC PS1=x; B=2", "true"
    )

    assert texts == snapshot(
        [
            """\
(no output)
[PATH does not last: set it in each command where you need it.]
[exit code 0, N s]\
""",
            """\
(no output)
[PS1 and TZ do not last: set them in each command where you need them.]
[exit code 0, N s]\
""",
            """\
(no output)
[exit code 0, N s]\
""",
        ]
    )


async def test_a_program_cannot_write_where_the_shell_notes_what_it_leaves(tmp_path: Path) -> None:
    """The control is the shell itself, which has the descriptor."""
    program = (
        "import os\n"
        "for fd in range(3, 300):\n"
        "    try:\n"
        "        os.write(fd, b'\\0' + os.getcwd().encode() + b'/a\\0GNUMAKEFLAGS=x\\0')\n"
        "    except OSError:\n"
        "        pass\n"
    )
    (tmp_path / "a").mkdir()
    (tmp_path / "forge.py").write_text(program, encoding="utf-8")
    shells = [Shell(), Shell()]
    await said(tmp_path, "python3 forge.py; kill -9 $$", shell=shells[0])
    forged = "printf '\\0%s/a\\0NAME=x\\0' $PWD >&$handrail_fd; kill -9 $$  # export NAME"
    await said(tmp_path, forged, shell=shells[1])

    assert [(one.folder, dict(one.variables)) for one in shells] == [
        ("", {}),
        ("a", {"NAME": "x"}),
    ]


async def test_only_variables_that_a_line_exports_by_name_are_kept(tmp_path: Path) -> None:
    (tmp_path / "settings.sh").write_text(
        "export GNUMAKEFLAGS=-n FINE=2 ALSO=3\n", encoding="utf-8"
    )
    shell = Shell()
    await said(
        tmp_path,
        "export FINE=1; declare -x DECLARED=1",
        "source ./settings.sh",
        "set -a; PLAIN=1",
        "unset DECLARED",
        shell=shell,
    )

    assert dict(shell.variables) == {"FINE": "2"}


async def test_what_is_kept_is_bounded(tmp_path: Path) -> None:
    shell = Shell()
    many = f"export {' '.join(f'V{number}={number}' for number in range(1_000))}"
    big = "export HUGE=$(head -c 100000 /dev/zero | tr '\\0' a) LONG=$(printf 'a%.0s' $(seq 5000))"
    bad = "export BAD=$'\\xff'; env 'A B=1' true"
    await said(tmp_path, f"{bad}; {big}; {many}", shell=shell)

    assert len(shell.variables) <= 100
    assert max(map(len, shell.variables.values())) <= 4_000


async def test_calls_of_one_turn_start_where_the_turn_started(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    shell = Shell()
    async with executor(tmp_path, shell=shell) as one:
        calls = [
            Call("bash", {"command": line}, str(n))
            for n, line in enumerate(["cd a", "[ -d a ] && echo root", "true"])
        ]
        texts = [timeless(result.text) for result in await one.run_all(calls)]
        after = timeless((await run(one, "basename $PWD")).text)

    assert [*texts, after] == snapshot(
        [
            """\
(no output)
[exit code 0, N s, folder a]\
""",
            """\
root
[Ran in the workspace, the folder at the start of this turn. The next turn starts in a.]
[exit code 0, N s, folder a]\
""",
            """\
(no output)
[Ran in the workspace, the folder at the start of this turn. The next turn starts in a.]
[exit code 0, N s, folder a]\
""",
            """\
a
[exit code 0, N s, folder a]\
""",
        ]
    )


async def test_a_folder_that_went_away_is_left(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    shell = Shell()
    async with executor(tmp_path, shell=shell) as one:
        await run(one, "cd a")
        (tmp_path / "a").rmdir()
        text = timeless((await run(one, "echo here")).text)

    assert [text, shell.folder] == snapshot(
        [
            """\
bash: line 1: cd: ./a: No such file or directory
here
[exit code 0, N s]\
""",
            "",
        ]
    )


@pytest.mark.parametrize("args", ['{"command": ', "[1]", '"x"', {"command": 5}])
async def test_arguments_that_cannot_be_read_are_refused_in_any_folder(
    tmp_path: Path, args: Any
) -> None:
    shell = standing("a")
    async with executor(tmp_path, shell=shell) as one:
        result = await one.run(Call("bash", args, "c1"))

    assert result.failure is not None
    assert (result.failure.kind, shell.folder) == (FailureKind.BAD_ARGS, "a")


async def test_a_call_without_a_line_is_left_alone_in_any_folder(tmp_path: Path) -> None:
    shell = standing("a")
    async with executor(tmp_path, shell=shell) as one:
        text = (await one.run(Call("bash", {"command": " "}, "c1"))).text

    assert text == "Not run: command is empty."


async def test_a_call_that_was_checked_before_keeps_its_folder(tmp_path: Path) -> None:
    """One that waited for a yes is checked again: the folder is not put before it twice."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    async with executor(tmp_path, shell=standing("b")) as one:
        text = (await run(one, "cd  ./a; basename $PWD")).text

    assert text.splitlines()[0] == "a"


RULES = """
[[rule]]
decide = "allow"
command = ["cd {path}", "cat {path}", "ls"]

[[rule]]
decide = "deny"
access = "read file:private/**"
"""


async def test_rules_see_where_a_line_really_runs(tmp_path: Path) -> None:
    """The control is a shell that moves without its rules: the same line is then let through."""
    for name in ("private", "public"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "notes").write_text(f"{name}\n", encoding="utf-8")
    policy = Rulebook.from_toml(RULES, sandboxed=True)

    async def cat(folder: str) -> Result:
        tools = Toolset(bash(Sandbox(tmp_path), shell=standing(folder)))
        async with Executor(tools, policy=policy) as one:
            return await run(one, "cat notes")

    results = [await cat(folder) for folder in ("public", "private")]
    assert [timeless(one.text) for one in results] == snapshot(
        [
            "Not run: this needs the user's approval, and no one is available to give it. Do what you can without it, and report it at the end. Request: Allow this command? `cd  ./public; cat notes` (no rule allows `cd ./public`)",
            "Not run: rule 'deny read file:private/**' denies reading private. Do not work around this. Continue without it, or tell the user.",
        ]
    )


async def test_a_protected_folder_is_asked_about_wherever_the_shell_stands(tmp_path: Path) -> None:
    policy = Rulebook(mode="open", sandboxed=True)
    tools = Toolset(bash(Sandbox(tmp_path), shell=standing(".git")))
    async with Executor(tools, policy=policy) as one:
        result = await run(one, "echo x > config")

    assert result.text == snapshot(
        "Not run: this needs the user's approval, and no one is available to give it. Do what you can without it, and report it at the end. Request: Allow this command? `cd  ./.git; echo x > config` (.git is protected: git runs hooks and commands from .git)"
    )
