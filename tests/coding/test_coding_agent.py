"""A coding agent in one call: its system prompt, its rules, and what it may do."""

from __future__ import annotations

import logging
import re
import subprocess
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from handrail import READ, Allow, Approvals, Call, CheckedCall, HandrailError, Hook, Text, tool
from handrail.agent import Limits, RunState
from handrail.coding import coding_agent
from handrail.messages import Reply, Request, ToolResults
from handrail.permissions import Pending
from handrail.policy import InvalidRule, Mode, Rulebook, RulePaths, Trust, digest
from handrail.testing import ScriptedModel


def trust_all(_path: str, _content: bytes) -> bool:
    return True


def normalize(text: str, folder: Path) -> str:
    """Replace what differs between machines and days."""
    text = text.replace(str(folder.resolve()), "FOLDER")
    return re.sub("Platform: .*", "Platform: OS MACHINE", re.sub("Date: .*", "Date: DAY", text))


def init_repository(folder: Path) -> None:
    command = ["git", "init", "-q", "-b", "main", str(folder)]
    subprocess.run(command, check=True)  # noqa: S603  a fixed program


async def read_place(folder: Path, **options: Any) -> list[str]:
    """Run an agent, and return the lines about the place in its system prompt."""
    with ScriptedModel("Done.") as model:
        await coding_agent(folder, model, **options).run("Hello.")
    place = normalize(model.requests[0].system, folder).partition("conversation started:\n")[2]
    return place.partition("\n\n")[0].splitlines()


async def run_calls(folder: Path, *calls: Call, **options: Any) -> list[str]:
    """Run an agent whose model makes these calls, one in each turn; return their results."""
    with ScriptedModel(*calls, "Done.") as model:
        done = await coding_agent(folder, model, **options).run("Work.")
    messages = [message for message in done.state.messages if isinstance(message, ToolResults)]
    return [result.text for message in messages for result in message.results]


def write(path: str, call_id: str = "1") -> Call:
    return Call("write", {"file_path": path, "content": "x = 1\n"}, call_id)


def bash(command: str, call_id: str = "1") -> Call:
    return Call("bash", {"command": command}, call_id)


async def test_the_system_prompt_says_how_to_work_and_where(tmp_path: Path) -> None:
    init_repository(tmp_path)
    (tmp_path / "AGENTS.md").write_text("Use American spelling.\n", encoding="utf-8")
    with ScriptedModel("Done.") as model:
        agent = coding_agent(tmp_path, model, system="You help Ada.", trusted=trust_all)
        await agent.run("Hello.")

    assert normalize(model.requests[0].system, tmp_path) == snapshot(
        """\
You work on the files of one folder with tools. Paths are relative to that folder. Read a file before you change it. After a change, run the tests or checks of the project, if it has any. If a call is denied, do not work around it: continue without it, and say so. At the end, summarize in a few sentences what you changed and what you found.

You help Ada.

When this conversation started:
Folder: FOLDER
Date: DAY
Platform: OS MACHINE
Git: branch main, 1 changed file
Network: commands have none; bash can ask for hosts; use web_fetch for web pages

These instructions come from files in the workspace. If two conflict, follow the later one: it is closer to the current folder. The user's messages take precedence over all of them.

<instructions file="AGENTS.md">
Use American spelling.
</instructions>

Mode: ask. Changes, and commands that no rule allows, need approval.\
"""
    )
    [day] = re.findall("Date: (.*)", model.requests[0].system)
    assert (datetime.now().astimezone().date() - datetime.fromisoformat(day).date()).days in (0, 1)
    assert [tool.spec.name for tool in model.requests[0].tools] == snapshot(
        [
            "bash",
            "edit",
            "glob",
            "grep",
            "read",
            "read_job",
            "stop_job",
            "task",
            "todo",
            "web_fetch",
            "write",
        ]
    )


@pytest.mark.parametrize(("files", "state"), [(0, "no changed files"), (2, "2 changed files")])
async def test_git_is_described_by_its_branch_and_its_changes(
    files: int, state: str, tmp_path: Path
) -> None:
    init_repository(tmp_path)
    for number in range(files):
        (tmp_path / f"{number}.py").write_text("", encoding="utf-8")

    assert (await read_place(tmp_path))[3] == f"Git: branch main, {state}"


def run_git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True)  # noqa: S603, S607


async def test_describing_a_repository_runs_none_of_its_programs(tmp_path: Path) -> None:
    init_repository(tmp_path)
    program = tmp_path / "monitor"
    program.write_text("#!/bin/sh\ntouch ran\n", encoding="utf-8")
    program.chmod(0o755)
    run_git(tmp_path, "config", "core.fsmonitor", "./monitor")

    place = await read_place(tmp_path)
    ran = (tmp_path / "ran").exists()
    run_git(tmp_path, "status", "--short")

    assert place[3] == "Git: branch main, 1 changed file"
    assert (ran, (tmp_path / "ran").exists()) == (False, True)


async def test_a_repository_that_git_cannot_read_is_still_one(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()

    assert (await read_place(tmp_path))[3] == "Git: a repository"


async def test_the_network_is_described_by_its_hosts(tmp_path: Path) -> None:
    place = await read_place(tmp_path, network=["pypi.org"], without=["web_fetch"])

    assert place[3:] == [
        "Git: not a repository",
        "Network: commands can reach pypi.org; bash can ask for hosts",
    ]


async def test_without_commands_no_program_runs(tmp_path: Path) -> None:
    init_repository(tmp_path)

    place = await read_place(tmp_path, without=["bash"])

    assert place[3:] == ["Git: a repository", "Network: there are no commands"]


async def test_the_system_prompt_is_written_once_for_a_conversation(tmp_path: Path) -> None:
    file = tmp_path / "AGENTS.md"
    seen: list[str] = []

    async def model(request: Request) -> Reply:
        seen.append(request.system)
        return Reply((Text("Done."),))

    agent = coding_agent(tmp_path, model, without=["bash"], trusted=trust_all)
    first, other = RunState(run_id="first"), RunState(run_id="other")
    for text, history in [("one", first), ("two", first), ("two", other)]:
        file.write_text(text, encoding="utf-8")
        await agent.run("Hello.", history=history)
    for number in range(100):
        await agent.run("Hello.", history=RunState(run_id=str(number)))
    await agent.run("Hello.", history=first)

    assert (seen[0] == seen[1], seen[2] == seen[-1], seen[0] == seen[-1]) == (True, True, False)


async def test_only_trusted_instructions_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "project"
    folder.mkdir()
    file = folder / "AGENTS.md"
    file.write_text("Use tabs.\n", encoding="utf-8")
    trust = Trust(RulePaths.of(folder).trust or folder)

    def read_system() -> bool:
        return "Use tabs." in model.requests[-1].system

    model = ScriptedModel("Done.", "Done.")
    with caplog.at_level(logging.WARNING, "handrail"):
        await coding_agent(folder, model, without=["bash"]).run("Hello.")
    before = read_system()
    trust.grant(file, digest(file.read_bytes()))
    await coding_agent(folder, model, without=["bash"]).run("Hello.")

    assert (before, read_system()) == (False, True)
    assert [record.getMessage() for record in caplog.records] == snapshot(
        [
            "AGENTS.md: ignored: not trusted, or changed since you trusted it; review it with `handrail trust AGENTS.md`"
        ]
    )


NO_PRICES = """
mode = "edits"
[[rule]]
id = "prices"
decide = "deny"
access = "* file:prices.csv"
"""
RULES: dict[str, Any] = {
    "default": {},
    "plan": {"rules": "plan"},
    "edits": {"rules": Mode.EDITS},
    "text": {"rules": NO_PRICES},
    "text without mode": {"rules": NO_PRICES.replace('mode = "edits"', "")},
    "rulebook": {"rules": Rulebook(mode="edits")},
}


async def test_rules_are_a_mode_a_text_or_a_rulebook(tmp_path: Path) -> None:
    results = {
        name: (await run_calls(tmp_path, write("a.py"), without=["bash"], **options))[0]
        for name, options in RULES.items()
    }

    assert results == snapshot(
        {
            "default": "Not run: this needs the user's approval, and no one is available to give it. Do what you can without it, and report it at the end. Request: Allow `write` to change a.py?",
            "plan": "Not run: plan mode allows no changes. Do not work around this. Continue without it, or tell the user.",
            "edits": "Created 'a.py' with 1 line.",
            "text": "'a.py' already has this content. Nothing was changed.",
            "text without mode": "Not run: this needs the user's approval, and no one is available to give it. Do what you can without it, and report it at the end. Request: Allow `write` to change a.py?",
            "rulebook": "'a.py' already has this content. Nothing was changed.",
        }
    )


MISTAKES: dict[str, dict[str, Any]] = {
    "a misspelled mode": {"rules": "edit"},
    "the name of a rule file": {"rules": "rules.toml"},
    "the path of a rule file": {"rules": Path("rules.toml")},
    "rules with an unknown key": {"rules": "decide = 1"},
    "a misspelled tool": {"without": ["bsh"]},
    "a tool that is not in a list": {"without": "bash"},
}


def test_a_mistake_is_an_error_at_once(tmp_path: Path) -> None:
    errors: dict[str, str] = {}
    for mistake, options in MISTAKES.items():
        with pytest.raises((InvalidRule, TypeError, ValueError)) as error:
            coding_agent(tmp_path, ScriptedModel(), **{"without": ["bash"], **options})
        errors[mistake] = str(error.value)

    assert errors == snapshot(
        {
            "a misspelled mode": "unknown mode 'edit'; use one of plan, ask, edits, open",
            "the name of a rule file": "unknown mode 'rules.toml'; use one of plan, ask, edits, open",
            "the path of a rule file": "coding_agent(rules=PosixPath('rules.toml')): pass a mode such as 'edits', the text of a rule file, or a Rulebook.",
            "rules with an unknown key": "rules: unknown key 'decide'; use one of mode, rule, sources, version",
            "a misspelled tool": "There is no coding tool 'bsh'. The tools are apply_patch, ask_user, bash, edit, finish_plan, glob, grep, read, read_job, stop_job, task, todo, web_fetch, write.",
            "a tool that is not in a list": "coding_agent(without='bash'): pass a list, as in ['bash'].",
        }
    )


async def test_denied_files_are_hidden_from_tools_and_commands(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text("KEY,s3cret\n", encoding="utf-8")
    (tmp_path / "peek.py").write_text("print(open('prices.csv').read())\n", encoding="utf-8")
    calls = (
        bash("cat prices.csv"),
        bash("python3 peek.py", "2"),
        Call("grep", {"pattern": "KEY", "hidden": True}, "3"),
    )

    denied = await run_calls(tmp_path, *calls, rules=NO_PRICES)
    allowed = await run_calls(tmp_path, *calls, rules="edits")

    assert ["s3cret" in text for text in denied] == [False, False, False]
    assert ["s3cret" in text for text in allowed] == [True, True, True]


async def test_commands_run_in_the_sandbox_and_end_with_the_run(tmp_path: Path) -> None:
    results = await run_calls(
        tmp_path,
        bash("touch inside && touch /etc/outside || echo refused"),
        rules="open",
    )

    assert ("refused" in results[0], (tmp_path / "inside").exists()) == (True, True)


async def test_an_approval_holds_for_one_folder_and_once(tmp_path: Path) -> None:
    async def defer(pending: Pending) -> Pending:
        return pending

    def make(name: str) -> Any:
        (tmp_path / name).mkdir(exist_ok=True)
        model = ScriptedModel(*script, "Done.", "Done.")
        return coding_agent(tmp_path / name, model, approvals=defer, without=["bash"])

    script = [write("a.py")]
    one = make("one")
    state = (await one.run("Work.")).state
    script.clear()
    answers = {state.pending[0].id: Allow()}
    elsewhere = await make("two").resume(state, answers=answers)
    here = await one.resume(state, answers=answers)
    again = await one.resume(state, answers=answers)

    assert [(tmp_path / name / "a.py").exists() for name in ("one", "two")] == [True, False]
    assert [done.state.messages[2].results[0].text for done in (here, again)] == snapshot(
        [
            "Created 'a.py' with 1 line.",
            "Not run: this approval was already used. The earlier call may have taken effect: check first.",
        ]
    )
    assert elsewhere.stop_reason == snapshot("pending")


async def test_options_of_an_agent_and_more_tools(tmp_path: Path) -> None:
    @tool
    def version() -> int:
        """Return the version."""
        return 3

    final = Call("final_answer", {"answer": 3}, "2")
    with ScriptedModel(Call("version", {}, "1"), final) as model:
        agent = coding_agent(
            tmp_path,
            model,
            tools=[version],
            without=["bash"],
            rules="edits",
            approvals=Approvals(),
            output=int,
            limits=Limits(turns=5),
        )
        done = await agent.run("Which version?")

    assert done.output == 3


def test_runs_follow_each_other_from_synchronous_code(tmp_path: Path) -> None:
    model = ScriptedModel(bash("echo one"), "Done.", bash("echo two"), "Done.")
    agent = coding_agent(tmp_path, model, rules="edits")

    first = agent.run_sync("Work.")
    second = agent.run_sync("Continue.", history=first.state)

    assert [message.results[0].text.split("\n")[0] for message in second.state.messages[2::4]] == [
        "one",
        "two",
    ]


def test_the_home_folder_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    with pytest.raises(HandrailError, match="is your home folder or contains it"):
        coding_agent(tmp_path, ScriptedModel(), without=["bash"])


EXPLORED = [
    Call("task", {"prompt": "Find f."}, "1"),
    Call("read", {"file_path": "a.py"}, "2"),
    "In a.py.",
]


async def test_a_task_is_explored_with_the_same_rules_and_hooks(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(): ...\n", encoding="utf-8")
    seen: list[str] = []

    def note(call: CheckedCall) -> CheckedCall:
        seen.append(call.name)
        return call

    denied = '[[rule]]\nid = "a"\ndecide = "deny"\naccess = "read file:a.py"\n'
    results: list[str] = []
    for rules in ("ask", denied):
        with ScriptedModel(*EXPLORED, "Done.") as model:
            options: Any = {"rules": rules, "without": ["bash"], "hooks": [Hook(before=note)]}
            done = await coding_agent(tmp_path, model, **options).run("Explore.")
        results += [done.state.messages[2].results[0].text]
        last = model.requests[2].messages[-1]
        assert isinstance(last, ToolResults)
        results += [last.results[0].text]

    assert results == snapshot(
        [
            """\
In a.py.
[Note: prompt: was read as task.]\
""",
            "     1\tdef f(): ...",
            """\
In a.py.
[Note: prompt: was read as task.]\
""",
            "Not run: rule 'a' denies reading a.py. Do not work around this. Continue without it, or tell the user.",
        ]
    )
    assert seen == snapshot(["task", "read", "task", "read"])


async def test_without_tools_that_read_there_are_no_tasks(tmp_path: Path) -> None:
    with ScriptedModel("Done.") as model:
        agent = coding_agent(tmp_path, model, without=["bash", "glob", "grep", "read", "todo"])
        await agent.run("Hello.")

    assert [one.name for one in model.requests[0].tools.specs] == ["edit", "web_fetch", "write"]


async def test_models_that_know_patches_get_apply_patch_in_place_of_edit(tmp_path: Path) -> None:
    async def offered(name: str, **options: Any) -> list[str]:
        model = ScriptedModel("Done.")
        model.names = (name,)
        await coding_agent(
            tmp_path, model, without=["bash", *options.pop("without", ())], **options
        ).run("Hello.")
        names = [one.name for one in model.requests[0].tools.specs]
        return [name for name in names if name in {"apply_patch", "edit"}]

    assert await offered("gpt-5") == ["apply_patch"]
    assert await offered("openai/gpt-5.1-codex") == ["apply_patch"]
    assert await offered("gpt-5", without=["apply_patch"]) == ["edit"]
    assert await offered("claude-opus-5") == ["edit"]


async def test_a_tool_of_the_application_takes_the_place_of_one_with_its_name(
    tmp_path: Path,
) -> None:
    @tool(effect=READ)
    def todo() -> str:
        """Return my plan."""
        return "mine"

    def shout(request: Request) -> Request:
        return request._replace(system=request.system.upper())

    with ScriptedModel(Call("todo", {}, "1"), "Done.") as model:
        agent = coding_agent(tmp_path, model, tools=[todo], without=["bash"], prepare=shout)
        done = await agent.run("Plan.")

    assert done.state.messages[2].results[0].text == "mine"
    assert "MODE: ASK." in model.requests[0].system


ANSWERS: dict[str, tuple[str | None, Mode]] = {
    "edits": ("Continue in edits", Mode.OPEN),
    "ask": ("Continue in ask", Mode.OPEN),
    "below a ceiling": ("Continue in edits", Mode.ASK),
    "change": ("Change the plan", Mode.OPEN),
    "own words": ("Use sqlite.", Mode.OPEN),
    "nothing": (None, Mode.OPEN),
}


async def test_a_plan_is_carried_out_in_the_mode_that_the_person_chooses(tmp_path: Path) -> None:
    async def plan(said: str | None, ceiling: Mode) -> tuple[str, str, int]:
        rules, offered = Rulebook(mode="plan", ceiling=ceiling), 0

        async def ask(_question: str, choices: Sequence[str]) -> str | None:
            nonlocal offered
            offered = len(choices)
            return said

        with ScriptedModel(Call("finish_plan", {}, "1"), "Done.") as model:
            agent = coding_agent(tmp_path, model, rules=rules, ask=ask, without=["bash"])
            done = await agent.run("Plan.")
        return done.state.messages[2].results[0].text, str(rules.mode), offered

    assert {case: await plan(*answer) for case, answer in ANSWERS.items()} == snapshot(
        {
            "edits": (
                "The user approved the plan. The mode is now edits: carry it out.",
                "edits",
                3,
            ),
            "ask": ("The user approved the plan. The mode is now ask: carry it out.", "ask", 3),
            "below a ceiling": ("The user wants another plan: Continue in edits", "plan", 2),
            "change": (
                "The user wants another plan. End your turn, and wait for what to change.",
                "plan",
                3,
            ),
            "own words": ("The user wants another plan: Use sqlite.", "plan", 3),
            "nothing": (
                "The user wants another plan. End your turn, and wait for what to change.",
                "plan",
                3,
            ),
        }
    )


async def test_a_program_can_call_the_tools_that_read_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n", encoding="utf-8")
    code = "print((await glob(pattern='*')).splitlines()[0])\nprint(eval('write'))"
    script = ScriptedModel(Call("run_program", {"code": code}, "c1"), "Done.")
    plain = ScriptedModel("Done.")

    result = await coding_agent(tmp_path, script, without=["bash"], programs=True).run("Go.")
    await coding_agent(tmp_path, plain, without=["bash"]).run("Go.")

    [results] = [one for one in result.state.messages if isinstance(one, ToolResults)]
    assert "NameError: name 'write' is not defined" in results.results[0].text
    assert "Printed before:\na.txt\n" in results.results[0].text
    assert "run_program" in script.requests[0].tools
    assert "run_program" not in plain.requests[0].tools
