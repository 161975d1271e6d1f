"""A state as text, and back: one version in every text, nothing but JSON, nothing that runs."""

from __future__ import annotations

import base64
import json
from typing import Any, TypeVar, assert_never, cast, get_args

from handrail import Call, Failure, File, HandrailError, Image, Kind, Result, Text
from handrail.agent._state import State
from handrail.approvals import pending_from_json, pending_to_json
from handrail.messages import Content, Cut, Message, Prompt, Reply, Results, Stop, Thought, Usage

VERSION = 1


class Unreadable(HandrailError):
    """A text is no state, or one of a later version."""


def dump(state: State) -> str:
    """A state as JSON text. ValueError for what JSON cannot say, such as a call's arguments."""
    plain = {
        "handrail": VERSION,
        "messages": [_message(one) for one in state.messages],
        "waiting": [_result(one) for one in state.waiting],
        "inbox": [_message(one) for one in state.inbox],
        "usage": _counts(state.usage),
        "turns": state.turns,
        "calls": state.calls,
    }
    try:
        return json.dumps(plain, allow_nan=False)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"this state cannot be written as JSON: {error}") from None


def load(text: str) -> State:
    """The state of what ``dump`` gave; Unreadable for all else."""
    try:
        plain = _object(json.loads(text))
        if _as(int, plain["handrail"]) != VERSION:
            raise Unreadable(f"a state of version {plain['handrail']!r}; this reads {VERSION}")
        return State(
            messages=tuple(_message_of(one) for one in _list(plain["messages"])),
            waiting=tuple(_result_of(one) for one in _list(plain["waiting"])),
            inbox=tuple(_prompt_of(one) for one in _list(plain["inbox"])),
            usage=_usage_of(plain["usage"]),
            turns=_count(plain["turns"]),
            calls=_count(plain["calls"]),
        )
    except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise Unreadable(f"this is no state ({type(error).__name__}: {error})") from None


_T = TypeVar("_T")


def _as(type_: type[_T], value: object) -> _T:
    if type(value) is not type_:
        raise TypeError(f"{type(value).__name__} where {type_.__name__} is expected")
    return value


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", _as(cast("type[object]", dict), value))


def _list(value: object) -> list[Any]:
    return cast("list[Any]", _as(cast("type[object]", list), value))


def _count(value: object) -> int:
    number = _as(int, value)
    if number < 0:
        raise ValueError("a count below zero")
    return number


def _counts(usage: Usage) -> list[int]:
    return [usage.sent, usage.received, usage.cached]


def _message(message: Message) -> dict[str, Any]:
    match message:
        case Prompt(parts):
            return {"prompt": [_part(one) for one in parts]}
        case Results(results):
            return {"results": [_result(one) for one in results]}
        case Reply(parts, stop, usage, model):
            said = [_part(one) for one in parts]
            return {"reply": said, "stop": stop, "usage": _counts(usage), "model": model}
        case _:
            assert_never(message)


def _message_of(value: object) -> Message:
    plain = _object(value)
    if "prompt" in plain:
        return _prompt_of(plain)
    if "results" in plain:
        return Results(tuple(_result_of(one) for one in _list(plain["results"])))
    parts = tuple(_part_of(one) for one in _list(plain["reply"]))
    return Reply(
        parts, _stop_of(plain["stop"]), _usage_of(plain["usage"]), _as(str, plain["model"])
    )


def _prompt_of(value: object) -> Prompt:
    parts = _list(_object(value)["prompt"])
    return Prompt(tuple(_content_of(one) for one in parts))


def _stop_of(value: object) -> Stop:
    for stop in get_args(Stop):
        if stop == value:
            return cast("Stop", stop)
    raise ValueError("not a reason to stop")


def _part(part: Content | Thought | Call | Cut) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"text": text}
        case Image(data, media_type):
            return {"image": base64.b64encode(data).decode(), "type": media_type}
        case File(data, media_type, name):
            return {"file": base64.b64encode(data).decode(), "type": media_type, "name": name}
        case Thought(text, sealed, wire):
            return {"thought": text, "sealed": sealed, "wire": wire}
        case Call(name, args, id_):
            return {"call": name, "args": args if isinstance(args, str) else dict(args), "id": id_}
        case Cut(name, id_, args):
            return {"cut": name, "args": args, "id": id_}
        case _:
            assert_never(part)


def _content_of(value: object) -> Content:
    plain = _object(value)
    if "text" in plain:
        return Text(_as(str, plain["text"]))
    if "image" in plain:
        return Image(_bytes_of(plain["image"]), _as(str, plain["type"]))
    return File(_bytes_of(plain["file"]), _as(str, plain["type"]), _as(str, plain["name"]))


def _bytes_of(value: object) -> bytes:
    return base64.b64decode(_as(str, value), validate=True)


def _part_of(value: object) -> Text | Thought | Call | Cut:
    plain = _object(value)
    if "text" in plain:
        return Text(_as(str, plain["text"]))
    if "thought" in plain:
        return Thought(*(_as(str, plain[key]) for key in ("thought", "sealed", "wire")))
    if "call" in plain:
        args = plain["args"]
        sent = args if isinstance(args, str) else _object(args)
        return Call(_as(str, plain["call"]), sent, _as(str, plain["id"]))
    return Cut(*(_as(str, plain[key]) for key in ("cut", "id", "args")))


def _result(result: Result) -> dict[str, Any]:
    failure, pending = result.failure, result.pending
    return {
        "id": result.call_id,
        "text": result.text,
        "parts": [_part(one) for one in result.parts],
        "data": result.data,
        "failure": failure and [failure.kind, failure.message, failure.detail],
        "pending": pending and pending_to_json(pending),
    }


def _result_of(value: object) -> Result:
    plain = _object(value)
    data, pending = plain["data"], plain["pending"]
    return Result(
        _as(str, plain["id"]),
        _as(str, plain["text"]),
        tuple(_content_of(one) for one in _list(plain["parts"])),
        None if data is None else _as(str, data),
        _failure_of(plain["failure"]),
        None if pending is None else pending_from_json(pending),
    )


def _failure_of(value: object) -> Failure | None:
    if value is None:
        return None
    kind, message, detail = (_as(str, one) for one in _list(value))
    return Failure(Kind(kind), message, detail)


def _usage_of(value: object) -> Usage:
    sent, received, cached = (_count(one) for one in _list(value))
    return Usage(sent=sent, received=received, cached=cached)
