"""Models call tools as they know them from elsewhere: what has one reading runs, the rest is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from handrail import Args, Call, Executor, Toolset, tool
from handrail.sandbox import Sandbox
from handrail.tools import Jobs, Workspace, bash, coding_tools, edit, glob, grep, read, todo, write


def texts(tmp_path: Path, name: str, *calls: dict[str, Any]) -> list[str]:
    """What a model reads, call by call, with a new file each time."""
    workspace = Workspace(tmp_path)
    tools = Toolset(*(make(workspace) for make in (read, write, edit, glob, grep)), todo())
    executor = Executor(tools)
    told = list[str]()
    for number, args in enumerate(calls):
        (tmp_path / "a.py").write_text("one\nTwo\nthree\n", encoding="utf-8")
        told.append(executor.run_sync(Call(name, args, f"c{number}")).text)
    return told


def test_a_file_has_many_names(tmp_path: Path) -> None:
    calls = [{name: "a.py", "limit": 1} for name in ("path", "filename", "absolute_path")]

    assert texts(tmp_path, "read", *calls, {"path": "a.py", "file": "a.py"}) == snapshot(
        [
            """\
     1	one
[Lines 1 to 1 of 3. To read on, pass offset=2.]
[Note: path: was read as file_path.]\
""",
            """\
     1	one
[Lines 1 to 1 of 3. To read on, pass offset=2.]
[Note: filename: was read as file_path.]\
""",
            """\
     1	one
[Lines 1 to 1 of 3. To read on, pass offset=2.]
[Note: absolute_path: was read as file_path.]\
""",
            """\
Not run: invalid arguments.
- file: unknown field; known fields: file_path, offset, limit, view_range
Fix these and call again.\
""",
        ]
    )


def test_edits_are_known_by_other_names(tmp_path: Path) -> None:
    calls: list[dict[str, Any]] = [
        {"path": "a.py", "old_str": "one", "new_str": "1"},
        {"file_path": "a.py", "edits": [{"old_str": "one", "new_str": "1"}, {"oldString": "three", "newString": "3"}]},
        {"file_path": "a.py", "old_string": "one", "new_string": "1", "edits": [{"old_str": "three", "new_str": "3"}]},
        {"file_path": "a.py", "edits": [{"old_str": "one", "old_string": "one", "new_str": "1"}]},
        {"file_path": "a.py", "edits": "one"},
    ]  # fmt: skip

    assert texts(tmp_path, "edit", *calls) == snapshot(
        [
            """\
Edited 'a.py', line 1.
[Note: path: was read as file_path; old_str: was read as old_string; new_str: was read as new_string.]\
""",
            """\
Edited 'a.py', 2 replacements:
1. line 1.
2. line 3.
[The file had also changed elsewhere since it was read. Read it again.]\
""",
            """\
Edited 'a.py', 2 replacements:
1. line 1.
2. line 3.
[The file had also changed elsewhere since it was read. Read it again.]
[Note: edits: was read as edits=[{"old_string": "three", "new_string": "3"}].]\
""",
            """\
Not run: invalid arguments.
- old_string: required, missing
- new_string: required, missing
- edits[0].new_string: required, missing
- edits[0].new_str: unknown field; did you mean new_string?
- edits[0].old_str: unknown field; known fields: old_string, new_string, replace_all
Fix these and call again.\
""",
            """\
Not run: invalid arguments.
- old_string: required, missing
- new_string: required, missing
- edits: expected a list, got the string "one"
Fix these and call again.\
""",
        ]
    )


def test_options_of_grep_are_known_by_their_letters(tmp_path: Path) -> None:
    calls: list[dict[str, Any]] = [
        {"pattern": "two", "-i": True, "-n": True, "-A": 1, "head_limit": 5, "include": "*.py"},
        {"pattern": "Two", "-C": 1, "output_mode": "content"},
        {"pattern": "Two", "output_mode": "files_with_matches"},
        {"query": "Two", "-n": False},
        {"pattern": "Two", "output_mode": "lines"},
    ]

    assert texts(tmp_path, "grep", *calls) == snapshot(
        [
            """\
a.py
2: Two
3- three
[1 matching line in 1 file (3 lines).]
[Note: include: was read as glob; head_limit: was read as limit; -i: was read as ignore_case; -A: was read as after; -n: was ignored.]\
""",
            """\
a.py
1- one
2: Two
3- three
[1 matching line in 1 file (3 lines).]
[Note: -C: was read as context.]\
""",
            """\
a.py
[1 file.]
[Note: output_mode: was read as output_mode="files".]\
""",
            """\
Not run: invalid arguments.
- -n: unknown field; known fields: pattern, path, glob, type, output_mode, context, before, after, ignore_case, multiline, fixed_strings, include_ignored, hidden, limit, offset
Fix these and call again.\
""",
            """\
Not run: invalid arguments.
- output_mode: expected 'content', 'files' or 'count', got the string "lines"
Fix these and call again.\
""",
        ]
    )


def test_whole_files_and_patterns_are_known_by_other_names(tmp_path: Path) -> None:
    assert texts(tmp_path, "write", {"path": "b.py", "file_text": "x\n"}) == snapshot(
        [
            """\
Created 'b.py' with 1 line.
[Note: path: was read as file_path; file_text: was read as content.]\
"""
        ]
    )
    assert texts(tmp_path, "glob", {"glob_pattern": "*.py", "directory": "."}) == snapshot(
        [
            """\
a.py
b.py
[2 files, newest first.]
[Note: directory: was read as path; glob_pattern: was read as pattern.]\
"""
        ]
    )


def test_a_plan_is_known_by_other_names(tmp_path: Path) -> None:
    calls: list[dict[str, Any]] = [
        {"todos": [{"content": "Look", "status": "completed"}, {"content": "Fix\nit", "status": "in_progress"}, {"content": "Test", "status": "pending"}]},
        {"explanation": "so", "plan": [{"step": "Look", "status": "pending"}]},
        {"todos": [{"content": "Look", "status": "pending", "activeForm": "Looking", "id": "1"}]},
        {"plan": "Look"},
        {"todos": [{"content": "x", "status": "pending"}] * 101},
        {"todos": []},
    ]  # fmt: skip

    assert texts(tmp_path, "todo", *calls) == snapshot(
        [
            """\
[x] Look
[>] Fix it
[ ] Test
[1 of 3 steps completed.]\
""",
            """\
[ ] Look
[0 of 1 steps completed.]
[Note: plan: was read as todos=[{"content": "Look", "status": "pending"}]; explanation: was ignored.]\
""",
            """\
[ ] Look
[0 of 1 steps completed.]
[Note: todos: was read as todos=[{"content": "Look", "status": "pending"}].]\
""",
            """\
Not run: invalid arguments.
- todos: required, missing
- plan: unknown field; known fields: todos
Fix these and call again.\
""",
            "Not kept: a plan has at most 100 steps.",
            "[0 of 0 steps completed.]",
        ]
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"command": ["bash", "-lc", "ls -a"]}, {"command": "ls -a"}),
        ({"command": ["/bin/sh", "-c", "ls"]}, {"command": "ls"}),
        ({"command": ["ls", "-a"]}, None),
        ({"command": ["bash", "run.sh"]}, None),
        ({"command": ["bash", "-x", "ls"]}, None),
        ({"command": []}, None),
        ({"command": ["bash", "-c", 5]}, None),
        ({"command": "ls"}, {"command": "ls"}),
        ({"timeout": 120_000}, {"timeout_ms": 120_000}),
        ({"timeout": 10_000}, {"timeout_ms": 10_000}),
        ({"timeout": 9_999}, None),
        ({"timeout": 60}, None),
        ({"timeout": True}, None),
        ({"timeout": "120000"}, None),
        ({"description": "List files"}, {"command": "pwd"}),
    ],
)
def test_a_command_is_read_only_if_it_has_one_reading(
    tmp_path: Path, given: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    parsed = bash(Sandbox(tmp_path)).parse({"command": "pwd", **given})

    values = dict(parsed.values) if isinstance(parsed, Args) else None
    assert values == (None if expected is None else {"command": "pwd", **expected})


def test_commands_are_known_by_other_names(tmp_path: Path) -> None:
    calls: list[dict[str, Any]] = [
        {"cmd": "ls", "run_in_background": True},
        {"command": ["bash", "-lc", "ls"], "timeout": 120_000, "description": "List"},
        {"command": "ls", "timeout": 5},
        {"restart": True},
    ]
    parsed = [bash(Sandbox(tmp_path), jobs=Jobs()).parse(args) for args in calls]

    assert [getattr(one, "repairs", None) or getattr(one, "message", None) for one in parsed] == (
        snapshot(
            [
                ("cmd: was read as command", "run_in_background: was read as background"),
                (
                    "timeout: was read as timeout_ms=120000",
                    "description: was ignored",
                    'command: was read as command="ls"',
                ),
                """\
Not run: invalid arguments.
- timeout: unknown field; did you mean timeout_ms?
Fix these and call again.\
""",
                None,
            ]
        )
    )


FOREIGN = """
    Read apply_patch str_replace_editor multi_edit shell run_shell_command ls LS list_directory view
    cat read_file write_file replace TodoWrite WebSearch Task BashOutput KillShell zap
""".split()


def test_the_tool_to_use_instead_is_named_if_it_is_there(tmp_path: Path) -> None:
    tools = coding_tools(Workspace(tmp_path))
    executor = Executor(tools)
    told = {name: executor.run_sync(Call(name, {}, "c1")).text for name in FOREIGN}

    assert told == snapshot(
        {
            "Read": "There is no tool 'Read'. Did you mean read?",
            "apply_patch": "There is no tool 'apply_patch'. To change a file, use edit.",
            "str_replace_editor": "There is no tool 'str_replace_editor'. To change a file, use edit. To read a file, use read. To create a file, use write.",
            "multi_edit": "There is no tool 'multi_edit'. To change a file, use edit.",
            "shell": "There is no tool 'shell'. To run a command, use bash.",
            "run_shell_command": "There is no tool 'run_shell_command'. To run a command, use bash.",
            "ls": "There is no tool 'ls'. To list a folder, use read.",
            "LS": "There is no tool 'LS'. To list a folder, use read.",
            "list_directory": "There is no tool 'list_directory'. To list a folder, use read.",
            "view": "There is no tool 'view'. To read a file, use read.",
            "cat": "There is no tool 'cat'. To read a file, use read.",
            "read_file": "There is no tool 'read_file'. To read a file, use read.",
            "write_file": "There is no tool 'write_file'. To create a file, use write.",
            "replace": "There is no tool 'replace'. To change a file, use edit.",
            "TodoWrite": "There is no tool 'TodoWrite'. Available tools: bash, edit, glob, grep, read, read_job, stop_job, web_fetch, write.",
            "WebSearch": "There is no tool 'WebSearch'. To fetch a web page by its URL, use web_fetch.",
            "Task": "There is no tool 'Task'. Available tools: bash, edit, glob, grep, read, read_job, stop_job, web_fetch, write.",
            "BashOutput": "There is no tool 'BashOutput'. To read the output of a job, use read_job.",
            "KillShell": "There is no tool 'KillShell'. To stop a job, use stop_job.",
            "zap": "There is no tool 'zap'. Available tools: bash, edit, glob, grep, read, read_job, stop_job, web_fetch, write.",
        }
    )


def test_a_tool_that_is_not_there_is_not_named(tmp_path: Path) -> None:
    executor = Executor(Toolset(grep(Workspace(tmp_path)), todo()))
    told = {
        name: executor.run_sync(Call(name, {}, "c1")).text
        for name in ("ls", "TodoWrite", "GREP", "search_file_content")
    }

    assert told == snapshot(
        {
            "ls": "There is no tool 'ls'. Available tools: grep, todo.",
            "TodoWrite": "There is no tool 'TodoWrite'. To keep a plan, use todo.",
            "GREP": "There is no tool 'GREP'. Did you mean grep?",
            "search_file_content": "There is no tool 'search_file_content'. To search file contents, use grep.",
        }
    )


def test_of_two_names_that_differ_in_case_none_is_guessed() -> None:
    @tool(name="Look")
    def first() -> str:
        """Look."""
        return ""

    @tool(name="look")
    def second() -> str:
        """Look."""
        return ""

    executor = Executor(Toolset(first, second))

    assert executor.run_sync(Call("LOOK", {}, "c1")).text == snapshot(
        "There is no tool 'LOOK'. Did you mean look?"
    )
