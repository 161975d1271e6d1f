"""Hooks of the settings: programs that read a call as JSON, and refuse, change, ask or comment."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from cli_harness import Handrail, Ran
from cli_scripts import programmed, scripted

LOOK = ("tools", "call", "glob", "pattern=*.txt")
FOUND = "a.txt\n[1 file.]\n"
PYTHON = os.path.realpath(sys.executable)  # a link of /tmp is not in the sandbox


def hook(event: str, command: str, matcher: str = "", **more: Any) -> str:
    """A table of settings with one hook."""
    values = {"type": "command", "command": command, **more}
    inside = ", ".join(f"{name} = {json.dumps(value)}" for name, value in values.items())
    chosen = f"matcher = {json.dumps(matcher)}\n" if matcher else ""
    return f"[[hooks.{event}]]\n{chosen}hooks = [{{ {inside} }}]\n"


def user_settings(handrail: Handrail, text: str) -> None:
    handrail.config.mkdir(parents=True, exist_ok=True)
    (handrail.config / "config.toml").write_text(text, encoding="utf-8")


def program(code: str) -> str:
    """The command that runs a program."""
    whole = f"import json, sys\ngiven = json.load(sys.stdin)\n{code}\n"
    return f"{PYTHON} -I -S -c {shlex.quote(whole)}"


def printing(answer: dict[str, Any]) -> str:
    return program(f"print(json.dumps({answer!r}))")


def specific(**fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **fields}}


@pytest.fixture
def ready(handrail: Handrail) -> Handrail:
    handrail.write("a.txt", "x")
    return handrail


def call(handrail: Handrail, event: str, command: str, *words: str, **more: Any) -> Ran:
    """Call glob with this hook."""
    user_settings(handrail, hook(event, command, **more))
    return handrail(*(words or LOOK))


# ---------------------------------------------------------------- before a call


def test_a_hook_reads_the_call_and_lets_it_pass(ready: Handrail) -> None:
    noted = ready.workspace / "noted"
    code = f"import os; given['dir'] = os.environ['CLAUDE_PROJECT_DIR']; json.dump(given, open({str(noted)!r}, 'w'))"

    ran = call(ready, "PreToolUse", program(code), matcher="Read|Glob")

    assert (ran.exit, ran.out) == (0, FOUND)
    assert json.loads(noted.read_text(encoding="utf-8")) == {
        "session_id": "call",
        "cwd": str(ready.workspace),
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
        "tool_name": "Glob",
        "tool_use_id": "call",
        "tool_input": {"pattern": "*.txt"},
        "dir": str(ready.workspace),
    }


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("sys.exit('no') if 0 else (print('Not today.', file=sys.stderr), sys.exit(2))", "Not today."),
        ("sys.exit(2)", "A hook refused it without a reason."),
        ("print(json.dumps({'decision': 'block', 'reason': 'Ask Ana.'}))", "Ask Ana."),
        (f"print(json.dumps({specific(permissionDecision='deny')!r}))", "A hook refused it without a reason."),
        (
            f"print(json.dumps({specific(permissionDecision='deny', permissionDecisionReason='No.')!r}))",
            "No.",
        ),
    ],
)  # fmt: skip
def test_a_hook_refuses_a_call(ready: Handrail, code: str, reason: str) -> None:
    ran = call(ready, "PreToolUse", program(code))

    assert (ran.exit, ran.out) == (3, "")
    assert f"Not run: {reason}" in ran.err


@pytest.mark.parametrize(
    "code",
    [
        "pass",
        "print('Hello.')",
        "print('[1]')",
        'print(\'{"decision": "approve"}\')',
        f"print(json.dumps({specific(permissionDecision='allow')!r}))",
        "print('{\"hookSpecificOutput\": 5}')",
        "print('{\"continue\": true}')",
        "sys.stdin.close()",
    ],
)
def test_other_answers_let_a_call_pass(ready: Handrail, code: str) -> None:
    assert call(ready, "PreToolUse", program(code)).out == FOUND


def test_a_hook_never_allows_what_the_rules_do_not(ready: Handrail) -> None:
    allow = printing(specific(permissionDecision="allow"))

    ran = call(ready, "PreToolUse", allow, "tools", "call", "write", "file_path=b", "content=x")

    assert ran.exit == 3
    assert not (ready.workspace / "b").exists()


def test_a_hook_asks_where_the_rules_allow(ready: Handrail) -> None:
    asks = specific(permissionDecision="ask", permissionDecisionReason="Look at secrets?")

    ran = call(ready, "PreToolUse", printing(asks))

    assert ran.exit == 3
    assert "Look at secrets?" in ran.err


def test_a_question_without_words_gets_some(ready: Handrail) -> None:
    ran = call(ready, "PreToolUse", printing(specific(permissionDecision="ask")))

    assert "A hook asks for your approval." in ran.err


def test_a_hook_changes_the_arguments_and_the_next_one_sees_them(ready: Handrail) -> None:
    ready.write("b.md", "x")
    noted = ready.workspace / "noted"
    change = printing(specific(updatedInput={"pattern": "*.md"}))
    user_settings(ready, hook("PreToolUse", change) + hook("PreToolUse", f"cat > {noted}", "glob"))

    assert ready(*LOOK).out == "b.md\n[1 file.]\n"
    assert json.loads(noted.read_text(encoding="utf-8"))["tool_input"] == {"pattern": "*.md"}


def test_changed_arguments_are_checked(ready: Handrail) -> None:
    ran = call(ready, "PreToolUse", printing(specific(updatedInput={"pattern": 5})))

    assert (ran.exit, ran.out) == (2, "")


def test_a_matcher_chooses_tools(ready: Handrail) -> None:
    for matcher in ("Edit|Write", "Glo", "edit"):
        assert call(ready, "PreToolUse", "exit 2", matcher=matcher).out == FOUND
    for matcher in ("*", "Glob", "glob", "Gl.*", ""):
        assert call(ready, "PreToolUse", "exit 2", matcher=matcher).exit == 3


def test_a_hook_that_fails_without_refusing_is_reported(ready: Handrail) -> None:
    ran = call(ready, "PreToolUse", "echo broken >&2; exit 1")

    assert (ran.exit, ran.out) == (0, FOUND)
    assert "exit code 1: broken" in ran.err


@pytest.mark.parametrize("command", ["./missing.sh", "sleep 30", "'open quote"])
def test_a_hook_that_cannot_answer_refuses(ready: Handrail, command: str) -> None:
    ran = call(ready, "PreToolUse", command, timeout=1)

    assert (ran.exit, ran.out) == (3, "")


def test_a_message_for_the_person_is_shown(ready: Handrail) -> None:
    ran = call(ready, "PreToolUse", printing({"systemMessage": "Mind the\x1b gap."}))

    assert "Mind the\\u{1B} gap." in ran.err


def test_much_output_does_no_harm(ready: Handrail) -> None:
    ran = call(ready, "PreToolUse", program("print('x' * (3 << 20))"))

    assert (ran.err, ran.out) == ("", FOUND)


def test_an_answer_of_which_only_a_part_was_read_refuses(ready: Handrail) -> None:
    start = json.dumps(specific(permissionDecision="deny", permissionDecisionReason=""))[:-3]

    ran = call(ready, "PreToolUse", program(f"print({start!r} + 'x' * (1 << 20) + '\"}}}}')"))

    assert (ran.exit, ran.out) == (3, "")


# ---------------------------------------------------------------- after a call, start and end


HEARD = """
async def model(request):
    heard = [part.text for message in request.messages if isinstance(message, ToolResults)
             for result in message.results for part in result.content]
    replies = sum(isinstance(one, Reply) for one in request.messages)
    if not replies:
        return Reply((glob("c1"),), "calls")
    return Reply((Text(f"{replies}: {heard} {request.system}"),))
"""


def test_text_after_a_call_reaches_the_model(ready: Handrail) -> None:
    answer = {**specific(additionalContext="Names only."), "decision": "block", "reason": "Stale."}
    user_settings(ready, hook("PostToolUse", printing(answer), "Glob"))

    ran = ready("run", *programmed(ready, HEARD), "Look.")

    assert ran.exit == 0
    assert "[1 file.]\\n\\n[Hook: Stale.]\\n\\n[Hook: Names only.]" in ran.out


def test_nothing_runs_after_a_call_that_failed(ready: Handrail) -> None:
    noted = ready.workspace / "noted"
    code = f"open({str(noted)!r}, 'w')"

    call(ready, "PostToolUse", program(code), "tools", "call", "read", "file_path=none")

    assert not noted.exists()
    assert call(ready, "PostToolUse", program(code)).out == FOUND
    assert noted.exists()


def test_a_hook_after_a_call_that_fails_is_reported(ready: Handrail) -> None:
    ran = call(ready, "PostToolUse", "./missing.sh")

    assert (ran.exit, ran.out) == (0, FOUND)
    assert "PostToolUse hook failed: `./missing.sh` could not start" in ran.err


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
def test_a_hook_ends_the_run(ready: Handrail, event: str) -> None:
    user_settings(ready, hook(event, printing({"continue": False, "stopReason": "Lunch."})))

    ran = ready("run", *programmed(ready, HEARD), "Look.")

    assert ran.exit != 0
    assert "Lunch." in ran.err


def test_the_start_adds_to_the_instructions(ready: Handrail) -> None:
    user_settings(ready, hook("SessionStart", "echo 'Be brief.'"))

    assert "Be brief." in ready("run", *programmed(ready, HEARD), "Look.").out


def test_the_start_can_answer_with_data(ready: Handrail) -> None:
    context = {"hookSpecificOutput": {"additionalContext": "Be short."}}
    user_settings(ready, hook("SessionStart", printing(context)))

    assert "Be short." in ready("run", *programmed(ready, HEARD), "Look.").out


def test_the_end_lets_a_run_go_on(ready: Handrail) -> None:
    code = "given['stop_hook_active'] or (print('Add tests.', file=sys.stderr), sys.exit(2))"
    user_settings(ready, hook("Stop", program(code)))
    model = scripted(ready, '"First."', '"Second."')

    ran = ready("run", *model, "Look.")

    assert (ran.exit, ran.out) == (0, "First.\nSecond.\n")


def test_the_end_cannot_go_on_for_ever(ready: Handrail) -> None:
    user_settings(ready, hook("Stop", "echo More. >&2; exit 2"))

    ran = ready("run", *scripted(ready, *['"More."'] * 9), "Look.")

    assert (ran.exit, ran.out) == (0, "More.\n" * 6)
    assert "a Stop hook continued the run 5 times; it ends now" in ran.err


# ---------------------------------------------------------------- trust


def test_a_hook_of_a_workspace_runs_only_when_it_is_trusted(ready: Handrail) -> None:
    ready.write("check.sh", "exit 2")
    ready.write("handrail.toml", hook("PreToolUse", "sh $CLAUDE_PROJECT_DIR/check.sh"))

    assert ready(*LOOK).out == FOUND  # the settings are not trusted
    ready("trust", "--yes", "handrail.toml")
    distrusted = ready(*LOOK)
    listed = ready("trust", "--list", "--json").json
    ready("trust", "--yes", "check.sh")
    refused = ready(*LOOK)
    ready.write("check.sh", "touch owned")
    changed = ready(*LOOK)

    assert "check.sh is not trusted, or changed since you trusted it" in distrusted.err
    assert (distrusted.exit, refused.exit, changed.exit) == (3, 3, 3)
    assert "Not run: A hook refused it" in refused.err
    assert not (ready.workspace / "owned").exists()
    assert [(file["path"], file["kind"]) for file in listed["files"]] == [
        ("handrail.toml", "settings"),
        ("check.sh", "hook"),
    ]


def test_a_file_that_a_hook_of_the_user_names_needs_trust_too(ready: Handrail) -> None:
    ready.write("check.sh", "exit 0")
    user_settings(ready, hook("PreToolUse", "env RUN=./check.sh sh -c 'sh $RUN'"))

    assert ready(*LOOK).exit == 3
    ready("trust", "--yes", "check.sh")
    assert ready(*LOOK).out == FOUND


def test_a_link_to_a_file_is_not_run(ready: Handrail) -> None:
    ready.write("real.sh", "exit 0")
    (ready.workspace / "check.sh").symlink_to("real.sh")
    user_settings(ready, hook("PreToolUse", "sh ./check.sh"))

    ran = ready(*LOOK)

    assert ran.exit == 3
    assert "cannot read" in ran.err


def test_files_of_hooks_cannot_be_changed_without_a_question(ready: Handrail) -> None:
    ready.write("check.sh", "exit 0")
    user_settings(ready, hook("Stop", "sh ./check.sh"))

    change = ("tools", "call", "write", "file_path=check.sh", "content=x", "--mode", "edits")
    other = ("tools", "call", "write", "file_path=other.sh", "content=x", "--mode", "edits")

    assert (ready(*change).exit, ready(*other).exit) == (3, 0)


# ---------------------------------------------------------------- settings


def test_hooks_of_all_files_run_and_none_removes_another(ready: Handrail) -> None:
    user_settings(ready, hook("PreToolUse", "exit 2"))
    ready.write("handrail.toml", "[hooks]\nPreToolUse = []\nStop = []\n")
    ready("trust", "--yes", "handrail.toml")

    assert ready(*LOOK).exit == 3


@pytest.mark.parametrize(
    "text",
    [
        "hooks = 5",
        "[hooks]\nStopp = []",
        "[hooks]\nStop = 5",
        "[[hooks.Stop]]\nhooks = 5",
        "[[hooks.Stop]]\nother = 5\nhooks = []",
        "[[hooks.Stop]]\nmatcher = '('\nhooks = []",
        "[[hooks.Stop]]\nmatcher = 5\nhooks = []",
        "[[hooks.Stop]]\nhooks = [5]",
        "[[hooks.Stop]]\nhooks = [{ type = 'command' }]",
        "[[hooks.Stop]]\nhooks = [{ type = 'command', command = ' ' }]",
        "[[hooks.Stop]]\nhooks = [{ type = 'prompt', command = 'x' }]",
        "[[hooks.Stop]]\nhooks = [{ type = 'command', command = 'x', timeout = 0 }]",
        "[[hooks.Stop]]\nhooks = [{ type = 'command', command = 'x', timeout = 'x' }]",
    ],
)
def test_a_table_of_another_shape_is_an_error(handrail: Handrail, text: str) -> None:
    user_settings(handrail, text)

    ran = handrail("config", "show")

    assert ran.exit == 2
    assert "`hooks` must be a table with lists of hooks for PreToolUse" in ran.err
    handrail.write("handrail.toml", text)
    assert handrail("trust", "--list").exit in {0, 1}


# ---------------------------------------------------------------- the sandbox

OUTSIDE = "the PreToolUse hook `{}` runs outside the sandbox, with your rights"


def own(command: str, **more: Any) -> str:
    return hook("PreToolUse", command, **more)


def test_a_hook_writes_in_the_workspace_and_nowhere_else(ready: Handrail) -> None:
    out = ready.folder / "out"
    ran = call(ready, "PreToolUse", f"echo x > inside; echo x > {out}; exit 0")

    assert ran.out == FOUND
    assert (ready.workspace / "inside").exists()
    assert not out.exists()
    call(ready, "PreToolUse", f"echo x > {out}", sandbox=False)
    assert out.exists()  # the control


def test_in_the_mode_plan_a_hook_writes_nothing(ready: Handrail) -> None:
    user_settings(ready, own("touch made || exit 2"))

    planned = ready(*LOOK, "--mode", "plan")

    assert (planned.exit, (ready.workspace / "made").exists()) == (3, False)
    assert "Read-only file system" in planned.err
    assert ready(*LOOK, "--mode", "ask").out == FOUND
    assert (ready.workspace / "made").exists()


def test_a_guard_works_in_the_mode_plan(ready: Handrail) -> None:
    ran = call(ready, "PreToolUse", "ls >&2; exit 2", *LOOK, "--mode", "plan")

    assert (ran.exit, ran.err) == (3, "handrail: Not run: a.txt\n")


def test_a_hook_reads_its_program_in_the_home_folder_and_not_the_one_beside_it() -> None:
    with tempfile.TemporaryDirectory(prefix=".handrail-test-", dir=Path.home()) as folder:
        handrail = Handrail(Path(folder))
        handrail.workspace.mkdir()
        hooks = handrail.folder / "home" / "hooks"
        hooks.mkdir(parents=True)
        for name in ("check.sh", "other.sh"):
            (hooks / name).write_text("echo Mine. >&2; cat ${0%/*}/*; exit 2", encoding="utf-8")

        ran = call(handrail, "PreToolUse", "sh ~/hooks/check.sh")

    assert ran.err == "handrail: Not run: Mine.\n"


@pytest.mark.parametrize("file", ["handrail.toml", ".handrail/local.toml"])
@pytest.mark.parametrize(
    ("text", "what"),
    [
        (own("true", sandbox=False), "a hook with `sandbox = false`"),
        ("unsandboxed_hooks = true", "`unsandboxed_hooks`"),
        ("codec = 'keys:codec'", "`codec`"),
    ],
)
def test_a_workspace_cannot_let_code_run_outside(
    ready: Handrail, file: str, text: str, what: str
) -> None:
    ready.write(file, text)
    ready("trust", "--yes", file)

    ran = ready(*LOOK)

    assert (ran.exit, ran.out) == (2, "")
    where = ready.workspace / file
    assert ran.err.splitlines() == [
        f"handrail: {where}:1: {what} is not allowed in a workspace's settings",
        f"  only your own settings can do that: move it to {ready.config / 'config.toml'}",
    ]


@pytest.mark.parametrize("value", ["5", "'no'", "[]"])
def test_sandbox_is_true_or_false(ready: Handrail, value: str) -> None:
    inside = f"hooks = [{{ type = 'command', command = 'x', sandbox = {value} }}]"
    user_settings(ready, f"[[hooks.Stop]]\n{inside}\n")

    assert ready("config", "show").exit == 2


def test_code_of_a_hook_outside_needs_trust_with_its_content(ready: Handrail) -> None:
    ready.write("checks/__main__.py", "print('one')")
    command = "python3 -m checks"
    user_settings(ready, own(command, sandbox=False))

    refused = ready(*LOOK)
    listed = ready("trust", "--list")
    shown = ready("trust", "--yes", "checks")
    trusted = ready(*LOOK)
    ready.write("checks/more.py", "")
    changed = ready(*LOOK)

    path = ready.workspace / "checks"
    message = (
        f"{path} is not trusted, or changed since you trusted it; review it with `handrail trust`"
    )
    assert refused.err.splitlines()[0] == f"PreToolUse hook failed: {message}"
    assert listed.err.splitlines() == [OUTSIDE.format(command)]
    assert listed.out == "not trusted  hook  checks\n"
    assert "only digests of the files are shown; review those files too" in shown.err
    assert [one.exit for one in (refused, trusted, changed)] == [3, 0, 3]


def test_a_hook_outside_whose_code_is_not_known_is_refused(ready: Handrail) -> None:
    user_settings(ready, own('sh "$FILE"', sandbox=False))

    ran, listed = ready(*LOOK), ready("trust", "--list")

    assert ran.exit == 3
    assert ran.err.splitlines()[0] == (
        'PreToolUse hook failed: cannot tell which workspace files `sh "$FILE"` runs: the value of '
        "`$FILE` is not known; put the program outside the workspace, or run it in the sandbox"
    )
    assert listed.err.splitlines() == [
        OUTSIDE.format('sh "$FILE"'),
        'the PreToolUse hook `sh "$FILE"` is refused: the value of `$FILE` is not known',
    ]


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("make -s fmt", "Makefile"),
        ("npm run -s fmt", "package.json"),
        ("cd tools && sh fix.sh", "tools/fix.sh"),
        ("python3 -m checks", "checks/__main__.py"),
    ],
)
@pytest.mark.parametrize("sandbox", [True, False])
def test_code_of_a_hook_outside_is_read_only_for_commands(
    ready: Handrail, line: str, file: str, *, sandbox: bool
) -> None:
    ready.write(file, "{}")
    named = "fix.sh" in line
    user_settings(ready, hook("Stop", line, sandbox=sandbox))
    edits = ("--mode", "edits")

    ready.write("change.py", f"open({file!r}, 'w').write('x')")
    ran = ready("tools", "call", "bash", "command=python3 change.py", *edits)
    written = ready("tools", "call", "write", f"file_path={file}", "content=y", *edits)

    protected = named or not sandbox
    assert ((ready.workspace / file).read_text("utf-8") == "{}") is protected
    assert ("Read-only file system" in ran.out) is protected
    assert (written.exit == 3) is protected


def test_a_folder_that_cannot_be_read_in_full_is_not_trusted(ready: Handrail) -> None:
    ready.write("checks/__main__.py", "")
    (ready.workspace / "checks" / "link").symlink_to("/etc")
    os.mkfifo(ready.workspace / "checks" / "pipe")
    user_settings(ready, own("python3 -m checks", sandbox=False))

    assert "cannot read" in ready(*LOOK).err
    assert "it is not a regular file" in ready("trust", "--list").err
    (ready.workspace / "checks" / "pipe").unlink()
    assert ready("trust", "--yes", "checks").exit == 0
    for number in range(2000):
        (ready.workspace / "checks" / f"{number}.txt").touch()
    assert "it has more than 2,000 files" in ready(*LOOK).err


def unavailable(handrail: Handrail, *words: str, **env: str) -> Ran:
    """Run a command where no sandbox can be made: without bubblewrap, no host can be allowed."""
    bare = handrail.folder / "bin"
    bare.mkdir(exist_ok=True)
    for name in ("bash", "sh", "rg", "git"):
        found = shutil.which(name)
        if found and not (bare / name).exists():
            (bare / name).symlink_to(found)
    return handrail(*words, env={"PATH": str(bare), **env})


def test_without_a_sandbox_a_hook_refuses_unless_the_user_says_so(ready: Handrail) -> None:
    settings = f"allowed_hosts = ['example.org']\n{own('exit 0')}"
    user_settings(ready, settings)

    refused = unavailable(ready, *LOOK)
    checked = unavailable(ready, "doctor", "--json").json["checks"]["hooks"]
    by_variable = unavailable(ready, *LOOK, HANDRAIL_UNSANDBOXED_HOOKS="true")
    user_settings(ready, f"unsandboxed_hooks = true\n{settings}")
    by_setting = unavailable(ready, *LOOK)
    allowed = unavailable(ready, "doctor", "--json").json["checks"]["hooks"]

    assert (refused.exit, by_variable.exit, by_setting.exit) == (3, 0, 0)
    assert "hooks run in the sandbox, which is not available: " in refused.err
    assert "To run them with your rights, set `unsandboxed_hooks = true`" in refused.err
    assert (checked["status"], allowed["status"]) == ("fail", "warn")
    assert allowed["found"] == "1 of 1 hook outside the sandbox, with your rights"


def test_doctor_says_which_hooks_run_outside(ready: Handrail) -> None:
    user_settings(ready, own("true") + hook("Stop", "notify-send done", sandbox=False))

    check = ready("doctor", "--json").json["checks"]["hooks"]

    assert check["status"] == "warn"
    assert check["found"] == "1 of 2 hooks outside the sandbox, with your rights"
    assert check["details"] == ["Stop: notify-send done"]
