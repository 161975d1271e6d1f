"""The provocations: what a model sends, and how to tell whether the tools stayed right."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, TypeAlias

from conformance._setup import Conversation, Feature, Read, Replies, Setup, Word
from conformance._world import LONG_CHARS, NEEDLE, SECRET
from handrail import Call

OK = "ok"
MAX_CHARS = LONG_CHARS // 10
"""Characters in one result, too many for a model."""

Judge: TypeAlias = Callable[[Setup, Sequence[Conversation]], str]
"""Returns ``ok``, or in one or two words what went wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provocation:
    """One thing done by models and people, and to be survived by tools."""

    name: str
    tries: str
    """What happens, in one sentence."""
    judge: Judge = field(repr=False)
    calls: tuple[Call, ...] = ()
    """The calls in the model's first reply. It has no others, except by ``replies``."""
    replies: Replies | None = field(default=None, repr=False)
    words: Mapping[str, Word] = field(default_factory=dict[str, Word])
    """What the person says, by call id. Without any, no call needs approval."""
    is_late: bool = False
    """Whether the person answers after the request has expired."""
    callers: tuple[str, ...] = ("alice",)
    """Who runs a conversation. Several run at the same time."""
    withdrawn: str = ""
    """The tool removed while the model writes its reply."""
    is_cancelled: bool = False
    """Whether the caller cancels the run once a tool has begun."""
    needs: frozenset[Feature] = frozenset()
    tool_timeout: float = 10.0
    """Seconds a tool may run. Only a tool that hangs takes them all."""
    patience: float = inf
    """Seconds after which the host hangs, if this is less than those of the check."""

    def reply(self, read: Sequence[Read]) -> Sequence[Call]:
        """Return the next reply's calls."""
        if self.replies is not None:
            return self.replies(read)
        return () if read else self.calls


def _call(name: str, call_id: str = "c1", **args: Any) -> Call:
    return Call(name, args, call_id)


def _append(text: str, call_id: str = "c1") -> Call:
    return _call("append_text", call_id, path="a", text=text)


def _text(conversations: Sequence[Conversation]) -> str:
    return "\n".join([read.text for one in conversations for read in one.read])


def _did(setup: Setup, *log: str, wrong: str) -> str:
    return OK if setup.world.log == list(log) else wrong


def _first_of(*words: str) -> str:
    """Return the first thing wrong."""
    return next((word for word in words if word != OK), OK)


def _answered(conversations: Sequence[Conversation], calls: int = 1) -> str:
    """Return whether the model has one result for each call."""
    read = [one for talk in conversations for one in talk.read]
    if len(read) < calls:
        return "no result"
    return OK if len(read) == calls and all(one.text for one in read) else "wrong results"


def _judge_raise(_: Setup, talks: Sequence[Conversation]) -> str:
    return _first_of("leaks" if SECRET in _text(talks) else OK, _answered(talks))


def _judge_not_run(setup: Setup, talks: Sequence[Conversation]) -> str:
    return _first_of(_did(setup, wrong="runs"), _answered(talks))


def _judge_writers(setup: Setup, talks: Sequence[Conversation]) -> str:
    written = {"12": OK, "21": "wrong order"}.get(setup.world.files["a"], "lost update")
    return _first_of(written, _answered(talks, 2))


def _judge_long(_: Setup, talks: Sequence[Conversation]) -> str:
    longest = max((len(read.text) for one in talks for read in one.read), default=0)
    return _first_of("whole" if longest > MAX_CHARS else OK, _answered(talks))


def _asked(setup: Setup, most: int = 1) -> str:
    """Return whether the person saw a request with a question, and no question twice."""
    questions = [question.strip() for _, question in setup.asked]
    if not questions:
        return "not asked"
    if len(questions) > most or len(set(questions)) < len(questions):
        return "asked twice"
    return OK if all(questions) else "empty question"


def _judge_approved(setup: Setup, talks: Sequence[Conversation]) -> str:
    return _first_of(_did(setup, "appended 1", wrong="not run"), _asked(setup), _answered(talks))


def _judge_refused(setup: Setup, talks: Sequence[Conversation]) -> str:
    return _first_of(_did(setup, wrong="runs"), _asked(setup), _answered(talks))


def _judge_edited(setup: Setup, talks: Sequence[Conversation]) -> str:
    edited = _did(setup, "appended 2", wrong="edit ignored")
    return _first_of(edited, _asked(setup, most=2), _answered(talks))  # one about the edited call


def _judge_behind(setup: Setup, talks: Sequence[Conversation]) -> str:
    """The read must not show the file from before the write approved afterwards."""
    stale = [one for talk in talks for one in talk.read if one.text == "content: "]
    order = "overtakes" if stale or setup.world.log[:1] != ["appended 1"] else OK
    return _first_of(order, _asked(setup), _answered(talks, 2))


def _judge_cancelled(setup: Setup, _: Sequence[Conversation]) -> str:
    return _did(setup, "stopped", wrong="runs on")


def _judge_hang(setup: Setup, talks: Sequence[Conversation]) -> str:
    return _first_of(_did(setup, "stopped", wrong="runs on"), _answered(talks))


def _judge_turns(setup: Setup, talks: Sequence[Conversation]) -> str:
    both = sorted(setup.world.files["a"]) == ["1", "1"]
    return _first_of(OK if both else "lost update", _answered(talks, 2))


def _judge_callers(_: Setup, talks: Sequence[Conversation]) -> str:
    texts = [_text([talk]) for talk in talks]
    return OK if texts == ["caller: alice", "caller: bob"] else "mixed up"


def _judge_image(_: Setup, talks: Sequence[Conversation]) -> str:
    images = sum(read.images for one in talks for read in one.read)
    return _first_of(OK if images == 1 else "no image", _answered(talks))


def _judge_stream(_: Setup, talks: Sequence[Conversation]) -> str:
    whole = "first item; second item; third item; " in _text(talks)
    return OK if whole else "not read"


_ADVICE = re.compile(r'\b(\w{1,64})\(call_id="([^"]*)", start=\d+\)')


def _read_on(read: Sequence[Read]) -> Sequence[Call]:
    """Ask for the report, and follow the advice in its result."""
    if not read:
        return (_call("print_report"),)
    advice = _ADVICE.search(read[0].text)
    if len(read) > 1 or advice is None:
        return ()
    return (Call(advice[1], {"call_id": advice[2], "search": NEEDLE}, "c2"),)


def _judge_reader(_: Setup, talks: Sequence[Conversation]) -> str:
    whole = any(len(read.text) > MAX_CHARS for one in talks for read in one.read)
    found = NEEDLE in _text(talks)
    return _first_of("whole" if whole else OK, OK if found else "rest is lost")


def _judge_unknown(setup: Setup, talks: Sequence[Conversation]) -> str:
    said = re.search("may have|not known|unknown", _text(talks))
    once = _did(setup, "transferred 5", wrong="repeated")
    return _first_of(once, OK if said else "not said", _answered(talks))


def _judge_repeated(setup: Setup, talks: Sequence[Conversation]) -> str:
    texts = [read.text for one in talks for read in one.read]
    pairs = OK if texts == ["appended 1", "appended 2"] else "wrong results"
    once = setup.world.files == {"a": "1", "b": "old2"}
    return _first_of(OK if once else "wrong calls", pairs)


_APPROVALS = frozenset[Feature]({"approvals"})

PROVOCATIONS = (
    Provocation(
        name="a tool raises",
        tries="A tool raises an exception whose text has a path of the server.",
        calls=(_call("read_broken_file", number=1),),
        judge=_judge_raise,
    ),
    Provocation(
        name="wrong type",
        tries="The model sends a word where the tool needs a number.",
        calls=(_call("count_items", number="many"),),
        judge=_judge_not_run,
    ),
    Provocation(
        name="unknown name",
        tries="The model misspells the name of a tool.",
        calls=(_call("count_itms", number=1),),
        judge=_judge_not_run,
    ),
    Provocation(
        name="two writers",
        tries="Two calls of one reply append to the same file.",
        calls=(_append("1"), _append("2", "c2")),
        judge=_judge_writers,
    ),
    Provocation(
        name="a long result",
        tries="A tool returns a million characters.",
        calls=(_call("print_report"),),
        judge=_judge_long,
    ),
    Provocation(
        name="approval given",
        tries="A person approves a call.",
        calls=(_append("1"),),
        words={"c1": True},
        judge=_judge_approved,
        needs=_APPROVALS,
    ),
    Provocation(
        name="approval refused",
        tries="A person denies a call.",
        calls=(_append("1"),),
        words={"c1": False},
        judge=_judge_refused,
        needs=_APPROVALS,
    ),
    Provocation(
        name="approval expired",
        tries="A person approves a call after the request has expired.",
        calls=(_append("1"),),
        words={"c1": True},
        is_late=True,
        judge=_judge_refused,
        needs=_APPROVALS,
    ),
    Provocation(
        name="approval edited",
        tries="A person approves a call with other arguments.",
        calls=(_append("1"),),
        words={"c1": {"path": "a", "text": "2"}},
        judge=_judge_edited,
        needs=_APPROVALS,
    ),
    Provocation(
        name="a read behind a question",
        tries="A call waits for approval, and a later call of the reply reads the same file.",
        calls=(_append("1"), _call("show_file", "c2", path="a")),
        words={"c1": True},
        judge=_judge_behind,
        needs=_APPROVALS,
    ),
    Provocation(
        name="cancellation",
        tries="The caller cancels the run while a tool is running.",
        calls=(_call("wait_forever"),),
        is_cancelled=True,
        judge=_judge_cancelled,
    ),
    Provocation(
        name="a hang",
        tries="A tool never returns.",
        calls=(_call("wait_forever"),),
        tool_timeout=1.0,
        patience=15.0,  # some hosts give up later, and their tool runs on
        judge=_judge_hang,
    ),
    Provocation(
        name="two turns at once",
        tries="Two callers append to the same file at the same time.",
        calls=(_append("1"),),
        callers=("alice", "bob"),
        judge=_judge_turns,
    ),
    Provocation(
        name="context variables",
        tries="Two callers run at the same time, each with its own context variable.",
        calls=(_call("show_caller"),),
        callers=("alice", "bob"),
        judge=_judge_callers,
    ),
    Provocation(
        name="an image",
        tries="A tool returns an image.",
        calls=(_call("draw"),),
        judge=_judge_image,
        needs=frozenset({"images"}),
    ),
    Provocation(
        name="a stream",
        tries="A tool yields its result piece by piece.",
        calls=(_call("list_items"),),
        judge=_judge_stream,
        needs=frozenset({"streams"}),
    ),
    Provocation(
        name="the rest of a long result",
        tries="The model follows the advice on how to read the rest of a long result.",
        replies=_read_on,
        judge=_judge_reader,
    ),
    Provocation(
        name="a stale tool",
        tries="A tool is removed while the model writes a call of it.",
        calls=(_call("get_price"),),
        withdrawn="get_price",
        judge=_judge_not_run,
        needs=frozenset({"changes"}),
    ),
    Provocation(
        name="an unknown outcome",
        tries="A tool loses its connection after the effect.",
        calls=(_call("transfer", amount=5),),
        judge=_judge_unknown,
    ),
    Provocation(
        name="a repeated call id",
        tries="The model uses one id for two calls of a reply.",
        calls=(_append("1"), _call("append_text", path="b", text="2")),
        judge=_judge_repeated,
    ),
    Provocation(
        name="upper and lower case",
        tries="The model writes the name of a tool in another case.",
        calls=(_call("Count_Items", number=1),),
        judge=_judge_not_run,
    ),
)
"""All provocations, in table order."""
