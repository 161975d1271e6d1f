"""Commands that want what is not there return at once, and say what to do instead."""

from __future__ import annotations

import subprocess
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handrail.tools._descriptions import CommandFacts, describe_bash
from handrail.tools._shell.advice import describe_wait, find_advice
from handrail.tools._shell.state import start_folder
from tools.shell.stage import told

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """What is said does not depend on it."""
    return "asyncio"


REPOSITORY = """
git init -q . && git config user.email a@b.c && git config user.name n && echo 1 > f && git add f
git commit -qm one && git checkout -qb side && echo 2 > f && git commit -qam two
git checkout -q - && echo 3 > f && git commit -qam three
"""

WAITING = {
    "cat": snapshot(
        ["['cat' got no input: commands have no stdin. Pass a file, a pipe or a here-document.]"]
    ),
    "cat - > out": snapshot(
        ["['cat' got no input: commands have no stdin. Pass a file, a pipe or a here-document.]"]
    ),
    "read x": snapshot(
        ["['read' got no input: commands have no stdin. Pass a file, a pipe or a here-document.]"]
    ),
    "python3": snapshot(
        [
            "['python3' got no program: commands have no stdin. Pass one in a file, with an option such as -c or -e, or in a here-document.]"
        ]
    ),
    "bash": snapshot(
        [
            "['bash' got no program: commands have no stdin. Pass one in a file, with an option such as -c or -e, or in a here-document.]"
        ]
    ),
    "sudo ls": snapshot(
        ["[Commands cannot gain privileges. Continue without 'sudo', or tell the user.]"]
    ),
    "passwd": snapshot(
        ["[Commands cannot gain privileges. Continue without 'passwd', or tell the user.]"]
    ),
    "ssh nobody@host.invalid ls": snapshot(
        [
            "['ssh' cannot connect: there is no direct network access and no password prompt. Continue without it, or tell the user.]"
        ]
    ),
    "vi f": snapshot(
        ["Not run: there is no terminal for 'vi'. Change files with edit, or with sed."]
    ),
    "FOO=1 vim f": snapshot(
        ["Not run: there is no terminal for 'vim'. Change files with edit, or with sed."]
    ),
    "less": snapshot(
        ["['less' got no input: commands have no stdin. Pass a file, a pipe or a here-document.]"]
    ),
    "git commit": snapshot(
        ["[There is no editor. Pass the message with -m, or in a file with -F.]"]
    ),
    "git tag -a v1": snapshot(
        ["[There is no editor. Pass the message with -m, or in a file with -F.]"]
    ),
    "python3 -c 'input()'": snapshot(
        ["[Commands have no stdin. Pass the input with options, files or variables.]"]
    ),
    "echo x > /etc/handrail-test": snapshot(
        ["[/etc/handrail-test is read-only: commands can write only the workspace and $TMPDIR.]"]
    ),
    "curl -sS http://host.invalid/": snapshot(
        ["[No network access. Work offline, or tell the user which host you need.]"]
    ),
}


def shell(root: Path, lines: str) -> None:
    subprocess.run(["bash", "-c", lines], cwd=root, check=True, capture_output=True)  # noqa: S603, S607


def advice(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(("[", "There"))][:-1] or [text]


@pytest.mark.parametrize("command", WAITING)
async def test_a_command_that_waits_for_somebody_returns_with_a_hint(
    tmp_path: Path, command: str
) -> None:
    if command.startswith("git"):
        shell(tmp_path, f"{REPOSITORY}echo 4 > f; git add f")
    with anyio.fail_after(5):
        text = await told(tmp_path, command)

    assert advice(text) == WAITING[command]


async def test_a_rebase_goes_on_without_an_editor(tmp_path: Path) -> None:
    shell(tmp_path, f"{REPOSITORY}git rebase side; echo 4 > f; git add f")
    with anyio.fail_after(5):
        text = await told(tmp_path, "git rebase --continue && git log --format=%s")

    assert text.splitlines()[-4:] == ["three", "two", "one", "[exit code 0, N s]"]


NOT_HINTED = [
    ("cat f", "", 0),
    ("echo a | cat", "", 0),
    ("cat < f", "", 0),
    ("cat <<E\nE", "", 0),
    ("cat", "something", 0),
    ("python3 -c pass", "", 0),
    ("python3 script.py", "", 0),
    ("while read line; do false; done < f", "", 1),
    ("echo a | while read x; do false; done", "", 1),
    ("echo sudo ls", "sudo ls", 1),
    ("ls 'vi f' \"\"", "", 2),
    ("git log | less", "", 0),
    ("git log | less", "", 1),
    ("echo 'unbalanced", "", 2),
    ("x" * 30_000, "", 1),
    ("grep 'Read-only file system' log", "Read-only file system", 0),
    ("true && false || true", "", 1),
]


@pytest.mark.parametrize(("command", "output", "code"), NOT_HINTED, ids=lambda one: str(one)[:20])
async def test_no_hint_where_there_is_no_reason(command: str, output: str, code: int) -> None:
    assert (find_advice(command, output, code), describe_wait(command)) == ("", "")


SAID = {
    "fork: retry: Resource temporarily unavailable": snapshot(
        "The number of processes is limited. Start fewer at a time."
    ),
    "MemoryError": snapshot("Memory is limited. Process less at a time."),
    "warning: failed to remove .vscode/: Device or resource busy": snapshot(
        "Names such as .vscode and .mcp.json are placeholders here, if the workspace does not have "
        "them: commands cannot create or remove them."
    ),
    "File size limit exceeded": snapshot(
        "The size of a file is limited. Write less, or several files."
    ),
    "fatal: could not read Username for 'https://x': terminal prompts disabled": snapshot(
        "Commands have no stdin. Pass the input with options, files or variables."
    ),
    "EROFS: read-only": snapshot("Commands can write only the workspace and $TMPDIR."),
}


@pytest.mark.parametrize("output", SAID)
async def test_a_hint_by_what_was_said(output: str) -> None:
    assert find_advice("make", output, 1) == SAID[output]


READ_ONLY = {
    "touch: cannot touch '/ws/.git/hooks/x': Read-only file system": snapshot(
        ".git/hooks is read-only for commands. Tell the user if it must change."
    ),
    "mkdir: cannot create directory \u2018.venv/lib\u2019: Read-only file system": snapshot(
        ".venv is read-only for commands. An install can change it, alone on its line and approved by the user."
    ),
    "ERROR: Could not install packages due to an OSError: [Errno 30] Read-only file system: 'x.pyi'": snapshot(
        ".venv is read-only for commands. An install can change it, alone on its line and approved by the user."
    ),
    'cause: Read-only file system (os error 30) at path "/root/.cache/x"': snapshot(
        "/root/.cache/x is read-only: commands can write only the workspace, /cache and $TMPDIR."
    ),
    "error: could not write config file .git/config: Device or resource busy": snapshot(
        ".git/config is read-only for commands: git runs commands from it. Tell the user which setting is needed."
    ),
    "bash: line 1: /etc/x: Read-only file system": snapshot(
        "/etc/x is read-only: commands can write only the workspace, /cache and $TMPDIR."
    ),
    "OSError: [Errno 30] Read-only file system: '/ws/kept.toml'": snapshot(
        "kept.toml is read-only for commands. Tell the user if it must change."
    ),
    "EROFS: read-only file system, open '/usr/lib/x'": snapshot(
        "/usr/lib/x is read-only: commands can write only the workspace, /cache and $TMPDIR."
    ),
    "Read-only file system": snapshot("Commands can write only the workspace, /cache and $TMPDIR."),
}


@pytest.mark.parametrize("output", READ_ONLY)
async def test_a_hint_names_what_is_read_only(output: str) -> None:
    facts = CommandFacts(root="/ws", writable=("/cache",))

    assert find_advice("make", output, 1, facts) == READ_ONLY[output]
    assert find_advice("make", output, 0, facts) == ""


def test_a_hint_comes_even_if_the_last_command_of_a_line_succeeds() -> None:
    said = "touch: cannot touch '.venv/x': Read-only file system"
    facts = CommandFacts(opens_hosts=True, refused=("pypi.org",), needed=("pypi.org",))
    lines = ("make; echo ok", "cat log | head", "cd src; cat log", "cat log")
    assert [find_advice(line, said, 0).partition(" is ")[0] for line in lines] == [
        ".venv",
        "",
        "",
        "",
    ]
    assert [find_advice(line, "", 0, facts)[:21] for line in lines] == [
        "No access to pypi.org",
        "",
        "",
        "",
    ]
    assert find_advice("make; echo ok", "failed", 0) == ""


def test_a_hint_says_that_an_open_host_does_not_answer() -> None:
    facts = CommandFacts(opens_hosts=True, needed=("a.test",), granted=("a.test",))
    said = "ERROR: No matching distribution found for demo"
    assert find_advice("pip install demo", said, 1, facts) == snapshot(
        "The command can reach a.test. Check the name, and whether the host answers."
    )


async def test_a_hint_names_the_hosts_that_can_be_reached() -> None:
    few = CommandFacts(network=["a.org", "*.b.org"])
    many = CommandFacts(network=[f"h{n}.org" for n in range(12)])

    assert [
        find_advice("make", "Could not resolve host: x", 6, facts) for facts in (few, many)
    ] == snapshot(
        [
            "Only a.org and *.b.org can be reached. Tell the user if you need another host.",
            "Only h0.org, h1.org, h2.org, h3.org, h4.org, h5.org, h6.org, h7.org, h8.org, h9.org and 2 more can be reached. Tell the user if you need another host.",
        ]
    )


SEEN = {
    "cd a; time env A=1 sudo ls": snapshot(
        "Commands cannot gain privileges. Continue without 'sudo', or tell the user."
    ),
    "if true; then vi f; fi": snapshot(
        "There is no terminal for 'vi'. Change files with edit, or with sed."
    ),
    "(less f)": snapshot(
        "There is no terminal for 'less'. Use a command that prints once and exits."
    ),
    "false; top": snapshot(
        "There is no terminal for 'top'. Use a command that prints once and exits."
    ),
    "read a b": snapshot(
        "'read' got no input: commands have no stdin. Pass a file, a pipe or a here-document."
    ),
    "/usr/bin/nano f": snapshot(
        "There is no terminal for 'nano'. Change files with edit, or with sed."
    ),
}


@pytest.mark.parametrize("command", SEEN)
async def test_a_hint_by_a_command_wherever_it_stands(command: str) -> None:
    assert (describe_wait(command) or find_advice(command, "", 1)) == SEEN[command]


@pytest.mark.parametrize("command", ["vim -es -c 'g/a/d' -c x f", "vim --version", "vim +q f"])
async def test_an_editor_may_work_by_itself(command: str) -> None:
    assert describe_wait(command) == ""


PARTS = st.sampled_from(["a", "'", '"', "./", "; ", " ", "\\", "'\"'\"'", "A=", "env ", "|", "("])


@given(st.lists(PARTS, min_size=1).map("".join))
def test_no_line_is_dear_to_read(unit: str) -> None:
    line = f"cd  {unit * (120_000 // len(unit))}"

    assert start_folder(line) in line.replace("'\"'\"'", "'")
    assert isinstance(
        find_advice(line[:4_000], line[:20_000], 1) + describe_wait(line[:4_000]), str
    )


UNREACHED = {
    "curl -s https://a.org": (6, ""),
    "curl -s https://a.org/x": (22, ""),
    "wget -q https://a.org": (4, ""),
    "cd x; pip install y": (1, "ERROR: No matching distribution found for y\n"),
    "curl http://localhost:8000": (
        7,
        "curl: (7) Failed to connect to localhost port 8000 after 0 ms: Couldn't connect to server",
    ),
}


@pytest.mark.parametrize("command", UNREACHED)
def test_a_host_that_cannot_be_reached_has_a_reason(command: str) -> None:
    code, output = UNREACHED[command]
    none, some = CommandFacts(), CommandFacts(network=["b.org"], shares_loopback=False)
    without = CommandFacts(has_loopback=False, shares_loopback=False)
    expected = {
        "curl -s https://a.org": snapshot(
            [
                "No network access. Work offline, or tell the user which host you need.",
                "Only b.org can be reached. Tell the user if you need another host.",
                "No network access. Work offline, or tell the user which host you need.",
            ]
        ),
        "curl -s https://a.org/x": snapshot(["", "", ""]),
        "wget -q https://a.org": snapshot(
            [
                "No network access. Work offline, or tell the user which host you need.",
                "Only b.org can be reached. Tell the user if you need another host.",
                "No network access. Work offline, or tell the user which host you need.",
            ]
        ),
        "cd x; pip install y": snapshot(
            [
                "No network access. Work offline, or tell the user which host you need.",
                "",
                "No network access. Work offline, or tell the user which host you need.",
            ]
        ),
        "curl http://localhost:8000": snapshot(
            [
                "",
                "Each command has its own localhost: start the server and call it in one command.",
                "",
            ]
        ),
    }

    assert [
        find_advice(command, output, code, facts) for facts in (none, some, without)
    ] == expected[command]


def test_code_that_this_process_imports_is_named_with_the_reason() -> None:
    mounted = CommandFacts(root="/ws", own_code=("src", ".venv"))
    landlocked = CommandFacts(own_code=("venv", "src"), has_loopback=False, protected=())
    said = "touch: cannot touch '/ws/src/x': Read-only file system"
    denied = "bash: line 1: new.txt: Permission denied"

    assert find_advice("touch src/x", said, 1, mounted) == snapshot(
        "src is read-only for commands: this program imports code from there. Tell the user if it must change."
    )
    assert find_advice("echo > new.txt", denied, 1, landlocked) == snapshot(
        "Commands cannot change venv and src, and cannot create or remove anything beside it: this program imports code from there. Use write, or tell the user."
    )
    assert find_advice("echo > new.txt", denied, 1, mounted) == ""
    assert [text for text in describe_bash(mounted).split(". ") if "writable" in text] == snapshot(
        [
            "Only the workspace and $TMPDIR are writable, but not .venv, .git/hooks, .git/config and src"
        ]
    )
