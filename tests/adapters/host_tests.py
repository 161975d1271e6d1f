"""Tests of one adapter, in the environment of its framework: see run.py."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from processes import take_part
from spans import Spans

from handrail import (
    READ,
    Allow,
    Call,
    CheckedCall,
    Context,
    Decision,
    Deny,
    Executor,
    Hook,
    StopRun,
    Toolset,
    tool,
)
from handrail.adapters import _turns
from handrail.programs import program_tool
from conformance import PROVOCATIONS, Conversation, Host, Setup, World, check
from conformance._setup import Word

HOST = os.environ["HANDRAIL_HOST"]
MODULE = import_module(f"on_{HOST}")
PATIENCE = 60.0
"""Seconds after which a host hangs: starts of threads and processes wait for a busy machine."""
VALUES_ONLY = ("anthropic", "autogen", "crewai", "smolagents")
"""The hosts that pass nothing to a function."""
HAS_DEPS = ("agent_framework", "fastmcp", "google_adk", "llama_index", "strands")
"""The hosts that always have an object for the tools."""
BEHIND = (
    "Not run: it waits for an earlier call of the same reply that needs the user's approval. "
    "Call again when that call has its result."
)


def test_without_its_framework_it_names_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    adapter = import_module(f"handrail.adapters.{HOST}")
    [attempt] = [
        one
        for one in ast.parse(Path(str(adapter.__file__)).read_text(encoding="utf-8")).body
        if isinstance(one, ast.Try)
    ]
    for one in attempt.body:
        hidden = one.module if isinstance(one, ast.ImportFrom) else one.names[0].name
        monkeypatch.setitem(sys.modules, hidden, None)
    monkeypatch.delitem(sys.modules, adapter.__name__)
    with pytest.raises(ModuleNotFoundError, match=rf"{HOST} needs .* pip install '?handrail"):
        import_module(adapter.__name__)


def observe(kind: str) -> dict[str, str]:
    """Return what the host does, without the provocations that it survives."""
    return observe_host(getattr(MODULE, kind))


def observe_host(host: Host) -> dict[str, str]:
    patiently = partial(check, patience=PATIENCE)
    anyio.run(patiently, host, PROVOCATIONS[:1])  # loads what is loaded late
    observed = anyio.run(patiently, host)
    assert list(observed) == [one.name for one in PROVOCATIONS]
    return {name: one.word for name, one in observed.items() if one.word != "ok"}


def test_with_handrail_only_what_the_host_decides_itself_goes_wrong() -> None:
    setups: list[Setup] = []

    def railed(setup: Setup) -> Any:
        setups.append(setup)
        return MODULE.railed(setup)

    observed = observe_host(railed).items() - getattr(MODULE, "VARIES", {}).items()

    assert dict(observed) == MODULE.HOST_DECIDES
    questions = {question for setup in setups for _, question in setup.asked}
    edited = "Edited, so it needs approval again. Append '2' to a?"
    assert questions <= {"Append '1' to a?", "Append '2' to a?", edited}  # those of the policy


@pytest.mark.skipif(not hasattr(MODULE, "switched"), reason="the page names no switch")
def test_what_the_page_calls_a_switch_is_one() -> None:
    chosen = [one for one in PROVOCATIONS if one.name in MODULE.SWITCHED]
    observed = anyio.run(partial(check, MODULE.switched, chosen, patience=PATIENCE))

    assert {name: one.word for name, one in observed.items()} == dict.fromkeys(
        MODULE.SWITCHED, "ok"
    )
    assert set(MODULE.SWITCHED) <= set(MODULE.HOST_DECIDES)


def test_the_bare_host_is_the_control() -> None:
    observed, unsure = observe("bare"), getattr(MODULE, "UNSURE", {})

    assert {name: observed.get(name, "ok") for name in unsure} == {
        name: word if observed.get(name) == word else "ok" for name, word in unsure.items()
    }
    assert {name: word for name, word in observed.items() if name not in unsure} == MODULE.BARE


class TracedSetup(Setup):
    """With an executor that makes spans."""

    spans: Spans

    def executor(self, *, asks_person: bool = False) -> Executor:
        return Executor(self.world.toolset(), hooks=[self.spans.telemetry.hook])


def test_the_span_of_each_call_is_in_the_trace_of_its_caller() -> None:
    setup = TracedSetup(world=World(), words={}, is_late=False, needs=frozenset())
    setup.spans = spans = Spans()
    calls = {"ada": Call("count_items", {"number": 1}, "c1"), "bob": Call("show_caller", {}, "c1")}

    async def talk(run: Any, caller: str) -> None:
        with spans.tracer.start_as_current_span(caller):
            await run(Conversation(lambda read: () if read else [calls[caller]], lambda: None))

    async def run_both() -> None:
        run = MODULE.railed(setup)
        async with anyio.create_task_group() as tasks:
            for caller in calls:
                tasks.start_soon(talk, run, caller)

    anyio.run(run_both)

    assert spans.callers() == [
        ("execute_tool count_items", "ada"),
        ("execute_tool show_caller", "bob"),
    ]


class Shop:
    """What the tools of an application use."""

    name = "tea shop"


class GivenSetup(Setup):
    """With an executor whose policy decides by metadata, and whose tool needs deps."""

    decided: list[Any]

    def executor(self, *, asks_person: bool = False) -> Executor:
        @tool(effect=READ)
        async def show_facts(context: Context[Shop]) -> str:
            """Show what the call runs with."""
            return f"{context.principal} {context.deps.name} {dict(context.metadata)}"

        def by_role(call: CheckedCall) -> Decision:
            self.decided.append(dict(call.turn.metadata))
            return Allow() if call.turn.metadata.get("role") == "staff" else Deny("Only staff.")

        return Executor(Toolset(show_facts), policy=by_role)


def run_with(**given: Any) -> tuple[list[str], list[Any]]:
    """Return what a model reads of a call that shows what it runs with, and what policies see."""
    setup = GivenSetup(world=World(), words={}, is_late=False, needs=frozenset())
    seen = setup.decided = []
    texts: list[str] = []

    def reply(read: Any) -> Any:
        texts.extend(one.text for one in read)
        return () if texts else [Call("show_facts", {}, "c1")]

    async def converse() -> None:
        await MODULE.railed(setup, **given)(Conversation(reply, lambda: None))

    anyio.run(converse)
    return texts, [one for at, one in enumerate(seen) if one not in seen[:at]]


STAFF = (["ada tea shop {'role': 'staff'}"], [{"role": "staff"}])


def test_principal_deps_and_metadata_reach_policies_and_tools() -> None:
    assert run_with(principal="ada", deps=Shop(), metadata={"role": "staff"}) == STAFF
    [text], decided = run_with(deps=Shop())
    assert ("Only staff." in text, decided) == (True, [{}])


@pytest.mark.skipif(HOST in VALUES_ONLY, reason="the host passes nothing to a function")
def test_functions_get_what_the_host_passes() -> None:
    passed: list[Any] = []

    def note(value: Any, one: Any) -> Any:
        passed.append(one)
        return value

    values: Any = {"principal": "ada", "deps": Shop(), "metadata": {"role": "staff"}}
    functions: Any = {name: partial(note, value) for name, value in values.items()}

    assert run_with(**functions) == STAFF
    assert len(passed) >= 3
    assert None not in passed

    async def find_deps(_: Any) -> Shop:
        raise AssertionError

    with pytest.raises(TypeError, match=r"deps= must not be an `async def` function\.$"):
        run_with(deps=find_deps)


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match=r"has no option 'tenant'\.$"):
        run_with(tenant="ada")


@pytest.mark.skipif(HOST in HAS_DEPS, reason="the host always has deps")
def test_a_tool_that_needs_deps_is_refused_where_there_are_none() -> None:
    """The host raises the error, or shows it to the model."""
    texts: list[str] = []
    try:
        texts += run_with(metadata={"role": "staff"})[0]
    except BaseException as error:  # noqa: BLE001  some hosts wrap it
        while error is not None:
            texts.append(str(error))
            error = error.__cause__ or error.__context__
    said = r"'show_facts' takes Context\[Shop\], but there are no deps\. Pass `deps=` to `"

    assert any(re.search(said, text) for text in texts)
    assert not any("NoneType" in text for text in texts)


PROGRAM = """
done = [await count_items(number=1)]
for text in ["1", "2"]:
    try:
        done.append(await append_text(path="a", text=text))
    except PermissionError:
        done.append("denied")
done + [await show_file(path="a")]
"""
ASKED = ["Append '1' to a?", "Append '2' to a?"]
DONE = ["counted 1", "appended 1", "appended 2", "showed a"]


class ProgramSetup(Setup):
    """With a program tool, and a person who says one word after the other."""

    said: list[Word]

    def ask(self, call_id: str, question: str) -> Word:
        self.asked.append((call_id, question))
        return self.said.pop(0)


def run_program(
    said: Sequence[Word] = (), host: Any = None
) -> tuple[list[str], list[str], list[str]]:
    """Return what a model reads of a program, what its calls did, and what a person was asked."""
    words = dict.fromkeys(["c1"] * bool(said), True)
    setup = ProgramSetup(world=World(), words=words, is_late=False, needs=frozenset())
    setup.said = [*said]
    functions = [one for one in setup.world.toolset() if one.spec.name in PROGRAM]
    setup.registry.add(program_tool(functions))
    talk = Conversation(
        lambda read: () if read else [Call("run_program", {"code": PROGRAM}, "c1")], lambda: None
    )

    async def converse() -> None:
        with anyio.fail_after(60):
            await (host or MODULE.railed)(setup)(talk)

    anyio.run(converse)
    return [one.text for one in talk.read], setup.world.log, [one for _, one in setup.asked]


def test_a_program_is_one_tool_and_its_calls_are_calls_of_the_executor() -> None:
    assert run_program() == (['["counted 1", "appended 1", "appended 2", "content: 12"]'], DONE, [])


PROGRAMS_ASK = getattr(MODULE, "PROGRAMS_ASK", MODULE.railed)
"""The host whose person is asked in the middle of a program."""


@pytest.mark.skipif("approval given" in MODULE.HOST_DECIDES, reason="the host has no approvals")
def test_approvals_in_the_middle_of_a_program_repeat_nothing() -> None:
    value = '["counted 1", "appended 1", "appended 2", "content: 12"]'

    assert run_program([True, True], PROGRAMS_ASK) == ([value], DONE, ASKED)


@pytest.mark.skipif("approval given" in MODULE.HOST_DECIDES, reason="the host has no approvals")
def test_a_denial_in_the_middle_of_a_program_is_an_error_in_it() -> None:
    value = '["counted 1", "appended 1", "denied", "content: 1"]'
    did = ["counted 1", "appended 1", "showed a"]
    read, log, asked = run_program([True, False], PROGRAMS_ASK)

    assert (read, log, asked) == getattr(MODULE, "DENIED_PROGRAM", ([value], did, ASKED))


class StoppingSetup(Setup):
    """With an executor whose hook ends the run when ``show_caller`` is called."""

    side: str

    def executor(self, *, asks_person: bool = False) -> Executor:
        def stop(call: Any, *result: Any) -> Any:
            if call.name == "show_caller":
                raise StopRun("The budget is spent.")
            return result[0] if result else call

        return Executor(self.world.toolset(), hooks=[Hook(**{self.side: stop})])


LATER = ["appended 2", "counted 3"]


def run_and_stop(side: str) -> list[str]:
    """Return what the tools do in a run that a hook ends in its first reply."""
    setup = StoppingSetup(world=World(), words={}, is_late=False, needs=frozenset())
    setup.side = side
    script = [
        [Call("show_caller", {}, "c1"), Call("append_text", {"path": "a", "text": "1"}, "c2")],
        [Call("append_text", {"path": "a", "text": "2"}, "c3")],
        [Call("count_items", {"number": 3}, "c4")],
    ]
    replies = iter(script)
    talk = Conversation(lambda _: next(replies, ()), lambda: None)

    async def converse() -> None:
        await MODULE.railed(setup)(talk)

    anyio.run(converse)
    return setup.world.log


@pytest.mark.skipif(
    hasattr(MODULE, "GOES_ON"), reason="the host does not say which calls are of a run"
)
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_hook_ends_the_run(side: str) -> None:
    """No call of a later reply runs either, though the host asks the model again."""
    did = run_and_stop(side)

    assert [line for line in did if line in LATER] == []
    assert did == [] or side == "after"


def test_where_the_end_of_the_run_is_not_noted_is_the_control(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_turns.Ended, "reason", None)
    if HOST in ("langgraph", "langchain"):
        monkeypatch.setattr(f"handrail.adapters.{HOST}.find_stop", lambda _: None)

    assert [line for line in run_and_stop("before") if line in LATER] == LATER


def fences(page: str) -> list[tuple[str, str]]:
    """The kinds and bodies of a page's fences."""
    text = (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"^```([^\n`]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run_fence(body: str, example: ModuleType, capsys: pytest.CaptureFixture[str]) -> str:
    """What a fence prints."""
    sys.modules["example"] = example  # where types look for their names
    exec(compile(body, "example.py", "exec"), example.__dict__)  # noqa: S102  our own pages
    return capsys.readouterr().out


def test_every_block_of_the_page_prints_what_the_page_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = fences(f"frameworks/{HOST.replace('_', '-')}.md")
    example = ModuleType("example")
    printed = ""
    for kind, body in found:
        if kind == "python":
            assert printed == "", "an output is missing"
            printed = run_fence(body, example, capsys)
        elif kind == "text output":
            assert printed == body
            printed = ""

    assert any(kind == "text output" for kind, _ in found)


@pytest.mark.skipif(
    HOST not in ("langchain", "openai_agents", "fastmcp"), reason="there is no page for newcomers"
)
def test_the_same_program_prints_the_same_in_both(capsys: pytest.CaptureFixture[str]) -> None:
    name = HOST.replace("_", "-")
    [(there, first), (here, second), (output, printed)] = fences(f"guides/from-{name}.md")

    assert (there, here, output) == (f'python title="with_{HOST}.py"', "python", "text output")
    assert run_fence(first, ModuleType("example"), capsys) == printed
    assert run_fence(second, ModuleType("example"), capsys) == printed


def run_step(step: str, folder: Path, *words: str) -> Any:
    """Run one step in a process of its own."""
    script = str(Path(__file__).with_name("processes.py"))
    ended = subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, script, HOST, step, str(folder), *words],
        check=True,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    return json.loads(ended.stdout)


HAS_APPROVALS = pytest.mark.skipif(
    not hasattr(MODULE, "resume"), reason="the framework has no approvals"
)


def check_outcome(asked: Any, outcome: Any, words: tuple[str, str], folder: Path) -> None:
    """Each write was asked about once, ran once if it was approved, and in order."""
    again, read = outcome
    texts, log = dict(read), folder / "log"
    written = "".join(text for text, word in zip("12", words, strict=True) if word == "yes")

    assert list(map(list, asked)) == [["c1", "Append 1?"], ["c2", "Append 2?"]]
    assert again == []
    assert (log.read_text(encoding="utf-8") if log.exists() else "") == written
    assert list(texts) == ["c1", "c2", "c3"]
    for call_id, word, text in zip(("c1", "c2"), words, "12", strict=True):
        assert (texts[call_id] == f"appended {text}") == (word == "yes")
    assert texts["c3"] == written or BEHIND in texts["c3"]


@HAS_APPROVALS
@pytest.mark.parametrize("words", [("yes", "yes"), ("no", "yes")], ids=["approved", "first_denied"])
def test_two_writes_and_a_read_are_approved_in_another_process(
    words: tuple[str, str], tmp_path: Path
) -> None:
    asked = run_step("ask", tmp_path)
    outcome = run_step("resume", tmp_path, f"c1={words[0]}", f"c2={words[1]}")

    check_outcome(asked, outcome, words, tmp_path)


@HAS_APPROVALS
@pytest.mark.parametrize("words", [("no", "no"), ("no", "yes"), ("yes", "no")])
def test_two_writes_and_a_read_are_approved_with_another_executor(
    words: tuple[str, str], tmp_path: Path
) -> None:
    """In the same process, so that the lines are measured."""
    said = (f"c1={words[0]}", f"c2={words[1]}")
    asked = anyio.run(take_part, HOST, "ask", tmp_path, ())
    outcome = anyio.run(take_part, HOST, "resume", tmp_path, said)

    check_outcome(asked, outcome, words, tmp_path)
