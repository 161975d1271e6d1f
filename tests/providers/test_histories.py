"""Any history goes over any wire, and what comes back lacks only what ``losses`` names."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, TypeGuard

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import Call, File, Image, Result, Text
from handrail.messages import Cut, Message, Prompt, Reply, Results, Thought, wire_name
from providers.histories import TOOLS, histories
from providers.read_back import READERS
from providers.sdk_types import CHECKS, accepts
from providers.wires import WIRES

FITS = {"openai_chat": re.compile(r"[A-Za-z0-9_-]{1,40}"), "": re.compile(r"[A-Za-z0-9_-]{1,64}")}
LOST = re.compile(r"messages\[(\d+)\]: (.+)", re.DOTALL)


OWN_NAMES = {wire_name(name): name for name in TOOLS}


def read(wire: str, body: dict[str, Any]) -> list[Message]:
    """A request as a history, with the tools' own names."""
    return [renamed(message) for message in READERS[wire](body)]


def renamed(message: Message) -> Message:
    if not isinstance(message, Reply):
        return message
    calls = {one.id: replace(one, name=OWN_NAMES[one.name]) for one in message.calls}
    return Reply(tuple(calls[one.id] if isinstance(one, Call) else one for one in message.parts))


def is_open(part: Any) -> TypeGuard[Thought]:
    return isinstance(part, Thought) and not part.sealed


def joined(parts: Any) -> list[Any]:
    """Parts without empty words; words, and thoughts without a seal, that stand together as one."""
    made: list[Any] = []
    for part in parts:
        before = made[-1] if made else None
        if isinstance(part, Text) and isinstance(before, Text):
            made[-1] = Text(before.text + part.text)
        elif is_open(part) and is_open(before) and part.wire == before.wire:
            made[-1] = replace(before, text=before.text + part.text)
        elif part != Text(""):
            made.append(part)
    return made


def essence(messages: list[Message]) -> list[Any]:
    """What a history says: ids as numbers, arguments as values."""
    numbers: dict[str, int] = {}
    made: list[Any] = []
    for message in messages:
        match message:
            case Prompt(parts):
                made.append(("prompt", *joined(parts)))
            case Reply(parts):
                calls = [part for part in parts if isinstance(part, Call | Cut)]
                numbers = {call.id: n for n, call in enumerate(calls)}
                made.append(("reply", *(called(part, numbers) for part in joined(parts))))
            case Results(results):
                made.append(("results", *(told(result, numbers) for result in results)))
    return made


def called(part: Any, numbers: dict[str, int]) -> Any:
    match part:
        case Call(name, args, call_id):
            return ("call", name, value(args), numbers[call_id])
        case Cut(name, call_id):
            return ("cut", name, numbers[call_id])
    return part


def value(args: Any) -> Any:
    try:
        return json.loads(args, object_pairs_hook=lambda pairs: pairs)
    except ValueError:
        return args


def told(result: Result, numbers: dict[str, int]) -> Any:
    return (numbers.get(result.call_id), result.failure is not None, joined(result.content))


def named(losses: tuple[str, ...]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for line in losses:
        at, what = LOST.fullmatch(line).groups()  # type: ignore[union-attr]
        found.setdefault(int(at), []).append(what)
    return found


def atoms(message: Message) -> tuple[list[str], list[Any]]:
    """All words of a message, part by part, and all else that it consists of, in no order."""
    if isinstance(message, Results):
        parts: list[Any] = [part for one in message.results for part in one.content]
    else:
        parts = list(message.parts)
    words = [plain(part.text) for part in parts if isinstance(part, Text)]
    return words, [other for part in joined(parts) for other in others(part)]


def plain(text: str) -> str:
    """Words without what may be added to them, or taken for it."""
    return text.replace("\n", "").replace("Failed: ", "")


def others(part: Any) -> list[Any]:
    match part:
        case Call(name, args):
            return [(name, value(args))]
        case Cut(name):
            return [(name, None)]
        case Image(data) | File(data):
            return [data]
        case Thought():
            return [part]
    return []


def excused(part: Any, lines: list[str]) -> bool:
    """Whether a loss that is named is about this part."""
    if isinstance(part, Thought):
        return any("thought" in line for line in lines)
    if isinstance(part, tuple):
        return any("the arguments of the call" in line or "was cut off" in line for line in lines)
    return any("is left out" in line or "goes as words" in line for line in lines)


def check_kept(before: Message, after: Message, lines: list[str]) -> None:
    """Of a message with losses, all else is still there."""
    words, rest = atoms(before)
    words_after, rest_after = atoms(after)
    assert all(word in "".join(words_after) for word in words)
    assert [part for part in rest if part not in rest_after and not excused(part, lines)] == []


def check_same(history: list[Message], back: list[Message], losses: dict[int, list[str]]) -> None:
    """Message by message: the same, or all there but for what is named."""
    assert len(back) == len(history)
    for at, (before, after) in enumerate(zip(essence(history), essence(back), strict=True)):
        if at in losses:
            check_kept(history[at], back[at], losses[at])
        else:
            assert before == after


@given(history=histories())
def test_a_history_loses_nothing_but_what_is_named(history: list[Message]) -> None:
    for wire, module in WIRES.items():
        body = module.encode_messages(history)
        CHECKS[wire](json.loads(json.dumps(body)))
        check_same(history, read(wire, body), named(module.losses(history)))


@given(history=histories())
def test_ids_are_unique_fit_the_wire_and_pair_calls_with_results(history: list[Message]) -> None:
    for wire, module in WIRES.items():
        back = read(wire, module.encode_messages(history))
        calls = [call.id for one in back if isinstance(one, Reply) for call in one.calls]
        results = [
            one.call_id
            for message in back
            if isinstance(message, Results)
            for one in message.results
        ]

        assert calls == results
        assert len(set(calls)) == len(calls)
        assert all(FITS.get(wire, FITS[""]).fullmatch(one) for one in calls)


@given(data=st.data(), one=st.sampled_from(sorted(WIRES)))
def test_a_history_of_one_wire_comes_back_from_the_others(one: str, data: st.DataObject) -> None:
    history = data.draw(histories([one]))
    for other in WIRES.keys() - {one}:
        there = read(other, WIRES[other].encode_messages(history))
        losses = named(WIRES[other].losses(history))
        for at, lines in named(WIRES[one].losses(there)).items():
            losses.setdefault(at, []).extend(lines)

        check_same(history, read(one, WIRES[one].encode_messages(there)), losses)


@given(history=histories(), more=histories())
def test_what_comes_later_changes_nothing_before_it(
    history: list[Message], more: list[Message]
) -> None:
    """A provider's cache holds the beginning of a request: it has to stay the same bytes."""
    for wire, module in WIRES.items():
        key = {"gemini": "contents", "openai_responses": "input"}.get(wire, "messages")
        short = module.encode_messages(history)[key]
        long = module.encode_messages(history + more)[key]

        assert json.dumps(long[: len(short)]) == json.dumps(short)


@pytest.mark.parametrize("wire", WIRES)
def test_a_loss_that_is_not_named_is_found(wire: str) -> None:
    """The control: of what comes back, something is taken away or changed."""
    calls = (Call("add", '{"a":1}', "c1"), Call("add", '{"a":2}', "c2"))
    results = Results((Result("c1", "1"), Result("c2", "2")))
    history = [Prompt.of("a", Image(b"x")), Reply((Text("b"), *calls)), results]
    back = read(wire, WIRES[wire].encode_messages(history))
    prompt, reply, answers = back
    broken = [
        [Prompt.of("a"), reply, answers],
        [prompt, replace(reply, parts=reply.parts[1:]), answers],
        [prompt, replace(reply, parts=(Text("b"), calls[0], calls[0])), answers],
        [prompt, reply, Results((Result("c1", "1"), Result("c2", "1")))],
        [prompt, reply],
    ]

    check_same(history, back, {})
    for one in broken:
        with pytest.raises(AssertionError):
            check_same(history, one, {})


@pytest.mark.parametrize("wire", WIRES)
def test_the_types_of_the_sdk_refuse_what_is_wrong(wire: str) -> None:
    """The control: a check that takes anything would show nothing."""
    body = WIRES[wire].encode_messages([Prompt.of("a", Image(b"x"))], system="Be brief.")
    text = json.dumps(body)
    broken = [
        text.replace('"user"', "7"),
        text.replace('"text": "a"', '"text": 1'),
        text.replace('"role"', '"roll"'),
        text.replace('"image', '"imagine').replace("inlineData", "outlineData"),
    ]

    assert accepts(wire, body)
    assert [accepts(wire, json.loads(one)) for one in broken] == [False] * len(broken)
