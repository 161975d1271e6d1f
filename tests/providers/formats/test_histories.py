"""Any history can be sent to any API, and only what ``losses`` reports is lost."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, TypeGuard

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import Call, File, Image, Result, Text
from handrail.messages import (
    Message,
    Opaque,
    Prompt,
    Reasoning,
    Reply,
    ToolResults,
    TruncatedCall,
    api_name,
)
from providers.apis import APIS
from providers.formats.histories import TOOLS, histories
from providers.formats.read_back import READERS
from providers.sdk_types import CHECKS, accepts

FITS = {"openai_chat": re.compile(r"[A-Za-z0-9_-]{1,40}"), "": re.compile(r"[A-Za-z0-9_-]{1,64}")}
LOST = re.compile(r"messages\[(\d+)\]: (.+)", re.DOTALL)


OWN_NAMES = {api_name(name): name for name in TOOLS}


KEYS = {"gemini": "contents", "openai_responses": "input"}
"""The key of the messages in a request, if it is not ``messages``."""


def read(api: str, body: dict[str, Any]) -> list[Message]:
    """A request as a history, with the tools' own names."""
    return [renamed(message) for message in READERS[api](body)]


def renamed(message: Message) -> Message:
    if not isinstance(message, Reply):
        return message
    calls = {one.id: replace(one, name=OWN_NAMES[one.name]) for one in message.calls}
    return Reply(tuple(calls[one.id] if isinstance(one, Call) else one for one in message.parts))


def is_open(part: Any) -> TypeGuard[Reasoning]:
    return isinstance(part, Reasoning) and not part.signature


def joined(parts: Any) -> list[Any]:
    """Parts without empty text. Adjacent text and unsigned reasoning are joined."""
    made: list[Any] = []
    for part in parts:
        before = made[-1] if made else None
        if isinstance(part, Text) and isinstance(before, Text):
            made[-1] = Text(before.text + part.text)
        elif is_open(part) and is_open(before) and part.api == before.api:
            made[-1] = replace(before, text=before.text + part.text)
        elif part != Text(""):
            made.append(part)
    return made


def essence(messages: list[Message]) -> list[Any]:
    """The content of a history: ids as numbers, arguments as values."""
    numbers: dict[str, int] = {}
    made: list[Any] = []
    for message in messages:
        match message:
            case Prompt(parts):
                made.append(("prompt", *joined(parts)))
            case Reply(parts):
                calls = [part for part in parts if isinstance(part, Call | TruncatedCall)]
                numbers = {call.id: n for n, call in enumerate(calls)}
                made.append(("reply", *(called(part, numbers) for part in joined(parts))))
            case ToolResults(results):
                made.append(("results", *(result_essence(result, numbers) for result in results)))
    return made


def called(part: Any, numbers: dict[str, int]) -> Any:
    match part:
        case Call(name, args, call_id):
            return ("call", name, value(args), numbers[call_id])
        case TruncatedCall(name, call_id):
            return ("cut", name, numbers[call_id])
    return part


def value(args: Any) -> Any:
    try:
        return json.loads(args, object_pairs_hook=lambda pairs: pairs)
    except ValueError:
        return args


def result_essence(result: Result, numbers: dict[str, int]) -> Any:
    return (numbers.get(result.call_id), result.failure is not None, joined(result.content))


def named(losses: tuple[str, ...]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for line in losses:
        at, what = LOST.fullmatch(line).groups()  # type: ignore[union-attr]
        found.setdefault(int(at), []).append(what)
    return found


def atoms(message: Message) -> tuple[list[str], list[Any]]:
    """All texts of a message, and all its other parts, in no order."""
    if isinstance(message, ToolResults):
        parts: list[Any] = [part for one in message.results for part in one.content]
    else:
        parts = list(message.parts)
    texts = [plain(part.text) for part in parts if isinstance(part, Text)]
    return texts, [other for part in joined(parts) for other in others(part)]


def plain(text: str) -> str:
    """Text without prefixes and line breaks that may be added."""
    return text.replace("\n", "").replace("Failed: ", "")


def others(part: Any) -> list[Any]:
    match part:
        case Call(name, args):
            return [(name, value(args))]
        case TruncatedCall(name):
            return [(name, None)]
        case Image(data) | File(data):
            return [data]
        case Reasoning() | Opaque():
            return [part]
    return []


def excused(part: Any, lines: list[str]) -> bool:
    """Whether a reported loss is about this part."""
    if isinstance(part, Opaque):
        return any("the part" in line or "the field" in line for line in lines)
    if isinstance(part, Reasoning):
        return any("reasoning" in line for line in lines)
    if isinstance(part, tuple):
        return any("the arguments of the call" in line or "was truncated" in line for line in lines)
    return any("is omitted" in line or "is sent as text" in line for line in lines)


def check_kept(before: Message, after: Message, lines: list[str]) -> None:
    """Check that a message with losses has everything else."""
    texts, rest = atoms(before)
    texts_after, rest_after = atoms(after)
    assert all(text in "".join(texts_after) for text in texts)
    assert [part for part in rest if part not in rest_after and not excused(part, lines)] == []


def check_same(history: list[Message], back: list[Message], losses: dict[int, list[str]]) -> None:
    """Check that each message is the same, apart from reported losses."""
    assert len(back) == len(history)
    for at, (before, after) in enumerate(zip(essence(history), essence(back), strict=True)):
        if at in losses:
            check_kept(history[at], back[at], losses[at])
        else:
            assert before == after


@given(history=histories())
def test_a_history_loses_only_what_losses_reports(history: list[Message]) -> None:
    for api, module in APIS.items():
        body = module.encode_messages(history)
        CHECKS[api](json.loads(json.dumps(body)))
        check_same(history, read(api, body), named(module.losses(history)))


@given(history=histories())
def test_ids_are_unique_fit_the_api_and_pair_calls_with_results(history: list[Message]) -> None:
    for api, module in APIS.items():
        back = read(api, module.encode_messages(history))
        calls = [call.id for one in back if isinstance(one, Reply) for call in one.calls]
        results = [
            one.call_id
            for message in back
            if isinstance(message, ToolResults)
            for one in message.results
        ]

        assert calls == results
        assert len(set(calls)) == len(calls)
        assert all(FITS.get(api, FITS[""]).fullmatch(one) for one in calls)


@given(data=st.data(), one=st.sampled_from(sorted(APIS)))
def test_a_history_of_one_api_survives_the_others(one: str, data: st.DataObject) -> None:
    history = data.draw(histories([one]))
    for other in APIS.keys() - {one}:
        there = read(other, APIS[other].encode_messages(history))
        losses = named(APIS[other].losses(history))
        for at, lines in named(APIS[one].losses(there)).items():
            losses.setdefault(at, []).extend(lines)

        check_same(history, read(one, APIS[one].encode_messages(there)), losses)


@given(history=histories(), more=histories())
def test_later_messages_do_not_change_earlier_ones(
    history: list[Message], more: list[Message]
) -> None:
    """A provider caches the start of a request, so its bytes must not change."""
    for api, module in APIS.items():
        key = KEYS.get(api, "messages")
        short = module.encode_messages(history)[key]
        long = module.encode_messages(history + more)[key]

        assert json.dumps(long[: len(short)]) == json.dumps(short)


@pytest.mark.parametrize("api", APIS)
def test_the_check_finds_an_unreported_loss(api: str) -> None:
    """The control: something is removed or changed."""
    calls = (Call("add", '{"a":1}', "c1"), Call("add", '{"a":2}', "c2"))
    results = ToolResults((Result("c1", "1"), Result("c2", "2")))
    history = [Prompt.of("a", Image(b"x")), Reply((Text("b"), *calls)), results]
    back = read(api, APIS[api].encode_messages(history))
    prompt, reply, answers = back
    broken = [
        [Prompt.of("a"), reply, answers],
        [prompt, replace(reply, parts=reply.parts[1:]), answers],
        [prompt, replace(reply, parts=(Text("b"), calls[0], calls[0])), answers],
        [prompt, reply, ToolResults((Result("c1", "1"), Result("c2", "1")))],
        [prompt, reply],
    ]

    check_same(history, back, {})
    for one in broken:
        with pytest.raises(AssertionError):
            check_same(history, one, {})


@pytest.mark.parametrize("api", APIS)
def test_the_types_of_the_sdk_reject_invalid_requests(api: str) -> None:
    """The control: a check that accepts everything would be useless."""
    body = APIS[api].encode_messages([Prompt.of("a", Image(b"x"))], system="Be brief.")
    text = json.dumps(body)
    broken = [
        text.replace('"user"', "7"),
        text.replace('"text": "a"', '"text": 1'),
        text.replace('"role"', '"roll"'),
        text.replace('"image', '"imagine').replace("inlineData", "outlineData"),
    ]

    assert accepts(api, body)
    assert [accepts(api, json.loads(one)) for one in broken] == [False] * len(broken)
