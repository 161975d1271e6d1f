"""Turns for frameworks that pass calls one at a time, with plain tasks in the place of one."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

import handrail
from handrail import (
    READ,
    WRITE,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Decision,
    Deny,
    Executor,
    Hook,
    NeedsLogin,
    Result,
    StopRun,
    Toolset,
    reads_file,
    tool,
    writes_file,
)
from handrail.adapters._turns import (
    BEHIND,
    MAX_OPEN,
    OpenTurn,
    Turns,
    Unchecked,
    describe,
    offer_tools,
    own_name,
    parse_object,
    read_word,
)
from handrail.permissions import Approver, Edit, Pending
from virtual_time import Quick


@pytest.fixture
def anyio_backend() -> str:
    """Tasks of asyncio start in order, as the frameworks expect."""
    return "asyncio"


ADAPTERS = Path(handrail.__file__).parent / "adapters"
MAX_LINES = 126
NOT_BEGUN = "Not run: the call was cancelled before it started."


class Disk:
    """Two tools, and what they did."""

    def __init__(self) -> None:
        self.text = ""
        self.begun = anyio.Event()

    def executor(
        self,
        *,
        asks: bool = False,
        decided: Callable[[Call], object] = lambda _: None,
        approver: Approver | None = None,
    ) -> Executor:
        @tool(effect=WRITE, touches=lambda path, **_: writes_file(path))
        async def append(path: str, text: str) -> str:
            """Append text to a file."""
            before = self.text
            self.begun.set()
            if text == "forever":
                await anyio.sleep_forever()
            await anyio.lowlevel.checkpoint()
            self.text = before + text
            return f"appended {text}"

        @tool(effect=READ, touches=reads_file)
        async def show(path: str) -> str:
            """Show a file."""
            return self.text

        def policy(call: CheckedCall) -> Decision:
            decided(call.call)
            return Ask("May it?") if asks and call.spec.effect > READ else Allow()

        return Executor(Toolset(append, show), policy=Quick(policy), approvals=approver)


def append(text: str, call_id: str) -> Call:
    return Call("append", {"path": "a", "text": text}, call_id)


SHOW = Call("show", {"path": "a"}, "c3")


async def run_side_by_side(opened: OpenTurn, calls: Sequence[Call]) -> list[Result]:
    """Run each call in a task of its own, as frameworks do."""
    results = dict[int, Result]()

    async def run(index: int, call: Call) -> None:
        results[index] = await opened.run(call)

    async with anyio.create_task_group() as tasks:
        for index, call in enumerate(calls):
            tasks.start_soon(run, index, call)
    return [results[index] for index in range(len(calls))]


@pytest.mark.anyio
async def test_calls_that_arrive_one_by_one_are_one_turn() -> None:
    disk = Disk()
    opened = Turns(disk.executor()).open("run", "1", {})
    results = await run_side_by_side(opened, [append("1", "c1"), append("2", "c2"), SHOW])

    assert sorted(disk.text) == ["1", "2"]
    assert {one.text for one in results[:2]} == {"appended 1", "appended 2"}
    assert opened.turn.next_position == 3


def test_a_call_runs_on_trio_too() -> None:
    async def run() -> Result:
        return await Turns(Disk().executor()).open("run", "1", {}).run(SHOW)

    assert anyio.run(run, backend="trio") == Result("c3", "")


@pytest.mark.anyio
async def test_two_calls_with_one_id_both_run() -> None:
    disk = Disk()
    opened = Turns(disk.executor()).open("run", "1", {})
    results = await run_side_by_side(opened, [append("1", "c1"), append("2", "c1")])

    assert [one.text for one in results] == ["appended 1", "appended 2"]


@pytest.mark.anyio
async def test_a_call_whose_task_is_cancelled_is_cancelled() -> None:
    disk = Disk()
    opened = Turns(disk.executor()).open("run", "1", {})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(opened.run, append("forever", "c1"))
        await disk.begun.wait()
        tasks.cancel_scope.cancel()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await opened.run(append("2", "c2"))

    assert "c2" not in opened.turn
    assert (await opened.turn.result("c1")).text.startswith("Cancelled while it ran.")


@pytest.mark.anyio
async def test_earlier_calls_that_no_one_approved_were_denied() -> None:
    disk = Disk()
    turns = Turns(disk.executor(asks=True))
    opened = turns.open("run", "1", {})
    calls = [append("1", "c1"), append("2", "c2"), SHOW]
    first = [await turns.settle(opened, one) for one in await run_side_by_side(opened, calls)]
    saved = describe(first[1].pending or pytest.fail("not pending"), opened)
    other_disk = Disk()
    other_turns = Turns(other_disk.executor(asks=True))
    elsewhere = other_turns.open("run", "1", {})
    elsewhere.turn.adopt(*map(Pending.from_json, saved["handrail"]))
    elsewhere.approved.add("c2")
    pending = elsewhere.find_pending("c2")
    assert pending is not None
    answered = await elsewhere.answer(pending, Allow())

    assert saved["question"] == "May it?"
    assert first[2].text == BEHIND
    assert turns.open("run", "1", {}) is opened
    del opened
    again = turns.open("run", "1", {"principal": "alice"})
    assert (again.turn.principal, [one.call.id for one in again.turn.pending]) == (
        "alice",
        ["c1", "c2"],
    )
    assert (answered.text, other_disk.text) == ("appended 2", "2")
    assert elsewhere.find_pending("c1") is None
    assert (await turns.settle(elsewhere, answered)) is answered


@pytest.mark.anyio
@pytest.mark.parametrize("paths", ["abc", "aba", "aaa"])
@pytest.mark.parametrize("slow", ["c1", "c2", "c3"])
async def test_the_requests_of_a_reply_are_returned_in_call_order(paths: str, slow: str) -> None:
    """Also if the calls that need them do not conflict, and end in another order."""

    async def defer_later(pending: Pending) -> Pending:
        for _ in range(30 if pending.call.id == slow else 0):
            await anyio.lowlevel.checkpoint()
        return pending

    turns = Turns(Disk().executor(asks=True, approver=defer_later))
    opened = turns.open("run", "1", {})
    asked: list[str] = []

    async def run(call: Call) -> None:
        result = await turns.settle(opened, await opened.run(call))
        asked.append(result.call_id)

    async with anyio.create_task_group() as tasks:
        for number, path in enumerate(paths, 1):
            tasks.start_soon(run, Call("append", {"path": path, "text": "1"}, f"c{number}"))

    assert asked == ["c1", "c2", "c3"]


@pytest.mark.anyio
async def test_cancelling_an_answered_call_cancels_it() -> None:
    disk = Disk()
    turns = Turns(disk.executor(asks=True))
    opened = turns.open("run", "1", {})
    pending = (await opened.run(append("forever", "c1"))).pending
    assert pending is not None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(opened.answer, pending, Allow())
        await disk.begun.wait()
        tasks.cancel_scope.cancel()

    assert (await opened.turn.result("c1")).text.startswith("Cancelled while it ran.")


@pytest.mark.anyio
async def test_an_answer_that_is_cancelled_before_it_is_given_changes_nothing() -> None:
    disk = Disk()
    opened = Turns(disk.executor(asks=True)).open("run", "1", {})
    pending = (await opened.run(append("1", "c1"))).pending
    assert pending is not None
    with anyio.CancelScope() as scope:
        scope.cancel()
        await opened.answer(pending, Allow())

    assert scope.cancelled_caught
    assert (await opened.answer(pending, Deny("No."))).text == "No."


@pytest.mark.anyio
async def test_turns_with_requests_are_kept_up_to_a_limit() -> None:
    turns = Turns(Disk().executor(asks=True), max_open=3)
    for number in range(5):
        opened = turns.open("run", str(number), {})
        await turns.settle(opened, await opened.run(append("1", "c1")))

    assert turns.open("run", "2", {}).turn.pending != ()
    assert turns.open("run", "0", {}).turn.pending == ()


@pytest.mark.anyio
async def test_calls_of_one_object_are_one_turn_where_nothing_names_it() -> None:
    disk, context = Disk(), object()
    turns = Turns(disk.executor(asks=True))
    opened = turns.gather(context, {"principal": "alice"})
    same, other = turns.gather(context, {"principal": "alice"}), turns.gather(object(), {})
    [result] = await run_side_by_side(opened, [append("1", "c1")])

    assert same is opened
    assert (opened.turn.principal, other.turn.principal) == ("alice", None)
    assert opened.turn.id != other.turn.id
    assert result.text.startswith("Not run")  # no approver, and the host does not ask
    assert disk.text == ""


def test_a_thread_can_run_a_call_in_a_turn() -> None:
    executor = Disk().executor()
    turn = executor.turn("1", run="r1", principal="alice")

    assert executor.run_sync(append("1", "c1"), turn=turn).text == "appended 1"
    assert "c1" in turn


def test_tools_are_offered_under_names_that_every_api_accepts() -> None:
    executor = Executor(Disk().executor().tools.prefixed("disk."))
    [(name, spec), *_] = offer_tools(executor)

    assert (name, spec.name) == ("disk_u2e_append", "disk.append")
    assert [own_name(executor, one) for one in (name, "other")] == ["disk.append", "other"]


def test_words_of_a_person_are_answers() -> None:
    words = [True, False, None, "Not now.", {"path": "b"}, "True"]

    assert [read_word(word) for word in words] == [
        Allow(),
        Deny.by_user(),
        Deny.by_user(),
        Deny.by_user("Not now."),
        Edit({"path": "b"}),
        Deny.by_user("True"),
    ]


def test_arguments_are_shown_to_hooks_as_an_object() -> None:
    texts = ['{"a": 1}', b"{}", "[1]", "{", {"b": 2}]

    assert [parse_object(text) for text in texts] == [{"a": 1}, {}, {}, {}, {"b": 2}]


def test_adapters_are_short_and_import_their_frameworks_only_when_they_are_imported() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in ADAPTERS.rglob("[a-z]*.py")}
    door = ast.parse((ADAPTERS / "__init__.py").read_text(encoding="utf-8"))

    assert {
        name: text.count("\n") for name, text in sources.items() if text.count("\n") > MAX_LINES
    } == {}
    assert not [node for node in ast.walk(door) if isinstance(node, ast.Import | ast.ImportFrom)]


def test_the_type_checkers_of_the_main_environment_leave_out_every_adapter_and_nothing_else() -> (
    None
):
    with (Path(__file__).parents[2] / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    names = [path.relative_to(ADAPTERS).as_posix() for path in ADAPTERS.rglob("[a-z]*.py")]

    assert project["tool"]["pyright"]["exclude"] == [
        f"src/handrail/adapters/{name}" for name in sorted(names)
    ]


@pytest.mark.anyio
async def test_each_call_runs_in_the_context_of_its_own_task() -> None:
    user = ContextVar[str]("user")

    @tool(effect=READ)
    async def who() -> str:
        """Say who calls."""
        return user.get()

    opened = Turns(Executor(Toolset(who))).open("run", "1", {})
    texts = list[str]()

    async def run(name: str) -> None:
        user.set(name)
        texts.append((await opened.run(Call("who", {}, name))).text)

    async with anyio.create_task_group() as tasks:
        for name in ("ada", "bob"):
            tasks.start_soon(run, name)

    assert sorted(texts) == ["ada", "bob"]


@pytest.mark.anyio
async def test_a_call_that_only_reads_can_start_early_but_never_before_one_that_waits() -> None:
    disk, results = Disk(), list[str]()
    opened = Turns(disk.executor()).open("run", "1", {})
    calls = ((SHOW, True), (append("1", "c1"), False), (replace(SHOW, id="c4"), True))

    async def run(call: Call, early: bool) -> None:  # noqa: FBT001
        results.append((await opened.run(call, early=early)).text)

    async with anyio.create_task_group() as tasks:
        for call, early in calls:
            tasks.start_soon(run, call, early)
            await anyio.lowlevel.checkpoint()
            results += ["-"] * (call is SHOW)

    assert results == ["", "-", "appended 1", "1"]


@pytest.mark.anyio
async def test_a_call_that_is_cancelled_before_it_is_added_never_runs() -> None:
    disk = Disk()
    turns = Turns(disk.executor())
    opened = turns.open("run", "1", {})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(opened.run, append("1", "c1"))
        await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    for _ in range(20):  # until no call is expected any more
        await anyio.lowlevel.checkpoint()
    result = await turns.settle(opened, await opened.run(SHOW))

    assert (result.text, disk.text, "c1" in opened.turn) == ("", "", False)


@pytest.mark.anyio
async def test_a_call_that_is_cancelled_while_it_is_decided_lets_others_run() -> None:
    disk, scope = Disk(), anyio.CancelScope()
    opened = Turns(disk.executor(decided=lambda call: call.id == "c1" and scope.cancel())).open(
        "run", "1", {}
    )

    async def run_cancelled() -> None:
        with scope:
            await opened.run(append("1", "c1"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_cancelled)
        tasks.start_soon(opened.run, append("2", "c2"))
    first, second = await opened.turn.results()

    assert (first.text, second.text) == (NOT_BEGUN, "appended 2")
    assert (scope.cancelled_caught, disk.text) == (True, "2")


@pytest.mark.anyio
@pytest.mark.parametrize("hooks", [[], [Hook(before=lambda call: call)]], ids=["none", "hook"])
async def test_a_call_runs_in_the_task_of_the_framework_unless_there_are_hooks(
    hooks: list[Hook],
) -> None:
    @tool(effect=READ)
    async def show() -> str:
        """Show the task."""
        return str(anyio.get_current_task().id)

    opened = Turns(Executor(Toolset(show), hooks=hooks)).open("run", "1", {})
    call = Call("show", {}, "c1")
    result = await opened.run(call)

    assert (result.text == str(anyio.get_current_task().id)) == (not hooks)
    assert await opened.turn.run(call) == result


def test_a_validator_of_a_framework_leaves_arguments_unchanged() -> None:
    listed = Unchecked(offer_tools(Disk().executor()))

    assert (listed.names, listed.find_turn()) == ({"append": "append", "show": "show"}, None)
    assert listed.validate_json('{"path": 1, "path": 2}') == {"path": 2}
    assert listed.validate_python("not even an object") == "not even an object"


def test_calls_that_cannot_be_added_raise_where_they_wait() -> None:
    executor = Disk().executor()

    async def run_once() -> Result:
        return await Turns(executor).open("run", "1", {}).run(SHOW)

    def run_in_another_loop() -> None:
        with pytest.raises(RuntimeError, match="already used in another event loop"):
            anyio.run(run_once)

    async def main() -> Result:
        result = await run_once()
        await anyio.to_thread.run_sync(run_in_another_loop)
        return result

    assert anyio.run(main) == Result("c3", "")


def stopping(disk: Disk, *, asks: bool = False) -> Executor:
    """An executor whose hook ends the run when a file is shown."""

    def stop(call: CheckedCall | Call, result: Result) -> Result:
        if call.name == "show":
            raise StopRun("Enough.")
        return result

    plain = disk.executor(asks=asks)
    return Executor(plain.tools, policy=asks_to_append if asks else None, hooks=[Hook(after=stop)])


def asks_to_append(call: CheckedCall) -> Decision:
    return Ask("May it?") if call.name == "append" else Allow()


ENDED = "Not run: a check ended the run. Enough."


@pytest.mark.parametrize("way", ["run", "reply", "object"])
async def test_later_calls_of_a_run_that_a_hook_has_ended_are_cancelled(way: str) -> None:
    disk, run, other = Disk(), object(), object()
    turns = Turns(stopping(disk))

    def opened(turn: str, within: object) -> OpenTurn:
        if way == "object":
            return turns.gather(within, {})
        return turns.open("r", turn, {}, within=within if way == "run" else None)

    first = await opened("1", run).run(SHOW)
    same = await opened("1" if way == "reply" else "2", run).run(append("x", "c1"))
    free = await opened("3", other).run(append("y", "c2"))

    assert (first.text, same.text, free.text) == ("", ENDED, "appended y")
    assert disk.text == "y"


async def test_calls_without_a_run_are_ended_alone() -> None:
    disk = Disk()
    turns = Turns(stopping(disk))
    await turns.gather(None, {}).run(SHOW)
    await turns.gather(None, {}).run(append("x", "c1"))

    assert disk.text == "x"


async def test_a_call_that_reads_early_ends_a_run_too() -> None:
    disk = Disk()
    turns = Turns(stopping(disk))
    await turns.open("r", "1", {}, within="run").run(SHOW, early=True)
    result = await turns.open("r", "2", {}, within="run").run(append("x", "c1"))

    assert (result.text, disk.text) == (ENDED, "")


async def test_a_call_that_was_answered_ends_a_run_too() -> None:
    disk = Disk()
    executor = disk.executor(asks=True)

    def stop(call: CheckedCall | Call, result: Result) -> Result:
        if result.pending is None:
            raise StopRun("Enough.")
        return result

    turns = Turns(Executor(executor.tools, policy=asks_to_append, hooks=[Hook(after=stop)]))
    opened = turns.open("r", "1", {}, within="run")
    asked = await turns.settle(opened, await opened.run(append("x", "c1")))
    assert asked.pending is not None
    await opened.answer(asked.pending, Allow())
    result = await turns.open("r", "2", {}, within="run").run(SHOW)

    assert (result.text, disk.text) == (ENDED, "x")


@pytest.mark.parametrize("needs", ["approval", "a login"])
async def test_a_host_that_cannot_ask_now_lets_the_model_tell_the_user(needs: str) -> None:
    @tool
    async def private() -> str:
        """Show what only a user can see."""
        raise NeedsLogin("Sign in.", url="https://sign.in")

    def policy(_: CheckedCall) -> Decision:
        return Ask("May it?") if needs == "approval" else Allow()

    turns = Turns(Executor(Toolset(private), policy=policy))
    opened = turns.open("r", "1", {})
    result = await opened.run(Call("private", {}, "c1"))
    settled = await turns.settle(opened, result, can_ask=False)

    what = "May it?" if needs == "approval" else "Sign in. https://sign.in"
    assert settled.text == (
        f"Not run: it needs the user first. {what} Tell the user, and call again after that."
    )
    assert (settled.pending, opened.turn.pending) == (None, ())


async def test_nothing_is_asked_in_a_turn_that_a_hook_has_ended() -> None:
    disk = Disk()
    turns = Turns(stopping(disk, asks=True))
    opened = turns.open("r", "1", {})
    asked = await opened.run(append("x", "c1"))
    await opened.run(replace(SHOW, args={"path": "b"}))
    settled = await turns.settle(opened, asked)

    assert asked.pending is not None
    assert (settled.text, settled.pending, opened.turn.pending) == (ENDED, None, ())


async def test_only_the_newest_ended_runs_are_kept() -> None:
    turns = Turns(stopping(Disk()))
    for n in range(MAX_OPEN + 1):
        await turns.gather(f"run {n}", {}).run(replace(SHOW, id=f"c{n}"))
    names = [f"run {n}" for n in (0, 1, MAX_OPEN)]

    assert [turns.gather(name, {}).turn.is_closed for name in names] == [False, True, True]
