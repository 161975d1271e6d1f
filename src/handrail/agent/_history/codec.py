"""Save and load run states as JSON. Loading runs no code; each text has a version."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from dataclasses import fields
from decimal import Decimal
from typing import Any, TypeVar, assert_never, cast, get_args

from handrail import Call, File, HandrailError, Image, Text
from handrail.agent._history.compaction import Shortened
from handrail.agent._history.given_answers import GivenAnswer
from handrail.agent._history.signed_text import is_signed, sign_text, verify_text
from handrail.agent._history.state import BackgroundCall, EarlyCall, RunState, Spent
from handrail.messages import (
    Content,
    Message,
    Opaque,
    Prompt,
    Reasoning,
    Reply,
    ReplyPart,
    Stop,
    ToolResults,
    TruncatedCall,
    Usage,
    read_result,
    write_result,
)
from handrail.permissions import read_answer, write_answer

VERSION = 2


class InvalidState(HandrailError):
    """A text is not a saved run state, or has an unsupported version."""


def dump_state(state: RunState, *, key: bytes | None = None) -> str:
    """Return a state as text: JSON, or with a key, JSON after a signature.

    Raises ValueError for values JSON cannot represent, and for a key under 32 bytes.
    """
    text = dump_values(encode_state(state))
    return text if key is None else sign_text(text, key)


def dump_values(values: object) -> str:
    """Return JSON text. Raises ValueError for values JSON cannot represent."""
    try:
        return json.dumps(values, allow_nan=False)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"The state cannot be saved as JSON: {error}.") from None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _read_float(text: str) -> float:
    number = float(text)
    return _refuse(text) if math.isinf(number) else number


_STRICT = json.JSONDecoder(parse_constant=_refuse, parse_float=_read_float)


def parse_values(text: str) -> Any:
    """Return a text's values. Raises ValueError for NaN, infinity, and what is not JSON."""
    return _STRICT.decode(text)


def encode_state(state: RunState) -> dict[str, Any]:
    """Return a state as JSON values."""
    return {
        "handrail": VERSION,
        "messages": [encode_message(message) for message in state.messages],
        "waiting": [write_result(result) for result in state.waiting],
        "inbox": [encode_message(prompt) for prompt in state.inbox],
        "usage": encode_usage(state.usage),
        "turns": state.turns,
        "calls": state.calls,
        "run_id": state.run_id,
        "before": _encode_spent(state.before),
        "discarded": [
            [_encode_part(call), write_result(result)] for call, result in state.discarded
        ],
        "shortened": list(state.shortened),
        "cost": str(state.cost),
        "answers": [[*given[:2], write_answer(given.answer)] for given in state.answers],
        "background": [[_encode_part(call), turn_id] for call, turn_id in state.background],
    }


def load_state(text: str, *, key: bytes | Sequence[bytes] | None = None) -> RunState:
    """Return the state saved by ``dump_state``. Raises InvalidState for any other text.

    Args:
        text: The saved state.
        key: The key that signed it, or several candidates, so you can change keys.
            Then an unsigned or changed text raises ``handrail.approvals.Tampered``.
    """
    if key is not None:
        text = verify_text(text, key)
    elif is_signed(text):
        raise InvalidState("This run state is signed. Pass its key: load_state(text, key=KEY).")
    try:
        return _decode_state(parse_values(text))
    except KeyError as error:
        raise InvalidState(f"Not a saved run state: key {error} is missing.") from None
    except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise InvalidState(f"Not a saved run state: {str(error).rstrip('.')}.") from None


def _decode_state(value: object) -> RunState:
    plain = _as_object(value)
    if _expect(int, plain["handrail"]) != VERSION:
        raise InvalidState(
            f"Unsupported version {plain['handrail']!r} of a saved run state. "
            f"This version of handrail reads version {VERSION}."
        )
    return RunState(
        messages=tuple(decode_message(item) for item in _as_list(plain["messages"])),
        waiting=tuple(read_result(item) for item in _as_list(plain["waiting"])),
        inbox=tuple(_decode_prompt(item) for item in _as_list(plain["inbox"])),
        usage=decode_usage(plain["usage"]),
        turns=_as_count(plain["turns"]),
        calls=_as_count(plain["calls"]),
        run_id=_expect(str, plain["run_id"]),
        before=_decode_spent(plain["before"]),
        discarded=tuple(_decode_early(item) for item in _as_list(plain["discarded"])),
        shortened=_decode_shortened(plain["shortened"]),
        cost=_decode_cost(plain["cost"]),
        answers=tuple(_decode_given(item) for item in _as_list(plain.get("answers", []))),
        background=tuple(
            _decode_background(item) for item in _as_list(plain.get("background", []))
        ),
    )


_T = TypeVar("_T")


def _expect(type_: type[_T], value: object) -> _T:
    if type(value) is not type_:
        raise TypeError(f"expected {type_.__name__}, got {type(value).__name__}")
    return value


def _as_object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", _expect(cast("type[object]", dict), value))


def _as_list(value: object) -> list[Any]:
    return cast("list[Any]", _expect(cast("type[object]", list), value))


def _as_count(value: object) -> int:
    number = _expect(int, value)
    if number < 0:
        raise ValueError(f"expected a number of at least 0, got {number}")
    return number


def encode_usage(usage: Usage) -> list[int]:
    """Return a list with token counts."""
    return [getattr(usage, name) for name in _COUNTS]


def _encode_spent(spent: Spent) -> dict[str, Any]:
    return {
        "turns": spent.turns,
        "calls": spent.calls,
        "usage": encode_usage(spent.usage),
        "cost": str(spent.cost),
    }


def _decode_spent(value: object) -> Spent:
    plain = _as_object(value)
    return Spent(
        _as_count(plain["turns"]),
        _as_count(plain["calls"]),
        decode_usage(plain["usage"]),
        _decode_cost(plain["cost"]),
    )


def _decode_cost(value: object) -> Decimal:
    cost = Decimal(_expect(str, value))
    if not (cost.is_finite() and cost >= 0):
        raise ValueError(f"expected a cost of at least 0, got {cost}")
    return cost


def _decode_early(value: object) -> EarlyCall:
    call, result = _as_list(value)
    return EarlyCall(_expect(Call, _decode_part(call)), read_result(result))


def _decode_background(value: object) -> BackgroundCall:
    call, turn_id = _as_list(value)
    return BackgroundCall(_expect(Call, _decode_part(call)), _expect(str, turn_id))


def _decode_given(value: object) -> GivenAnswer:
    pending_id, fingerprint, answer = _as_list(value)
    texts = _expect(str, pending_id), _expect(str, fingerprint)
    return GivenAnswer(*texts, read_answer(answer))


def _decode_shortened(value: object) -> Shortened:
    start, summary, results_before = _as_list(value)
    return Shortened(_as_count(start), _expect(str, summary), _as_count(results_before))


def encode_message(message: Message) -> dict[str, Any]:
    """Return a message as JSON values."""
    match message:
        case Prompt(parts):
            return {"prompt": [_encode_part(part) for part in parts]}
        case ToolResults(results):
            return {"results": [write_result(result) for result in results]}
        case Reply(parts, stop, usage, model, detail):
            encoded = {"reply": [_encode_part(part) for part in parts], "stop": stop}
            used = {"usage": encode_usage(usage), "model": model}
            timed = {} if message.seconds is None else {"seconds": float(message.seconds)}
            return {**encoded, **used, **timed, **({"stop_detail": detail} if detail else {})}
        case _:
            assert_never(message)


def decode_message(value: object) -> Message:
    """Return a saved message."""
    plain = _as_object(value)
    if "prompt" in plain:
        return _decode_prompt(plain)
    if "results" in plain:
        return ToolResults(tuple(read_result(item) for item in _as_list(plain["results"])))
    parts = tuple(_decode_part(item) for item in _as_list(plain["reply"]))
    return Reply(
        parts,
        _decode_stop(plain["stop"]),
        decode_usage(plain["usage"]),
        _expect(str, plain["model"]),
        _expect(str, plain.get("stop_detail", "")),
        seconds=_decode_seconds(plain.get("seconds")),
    )


def _decode_seconds(value: object) -> float | None:
    if value is None:
        return None
    seconds = _expect(float, value)
    if seconds < 0:
        raise ValueError(f"expected a time of at least 0, got {seconds}")
    return seconds


def _decode_prompt(value: object) -> Prompt:
    parts = _as_list(_as_object(value)["prompt"])
    return Prompt(tuple(_decode_content(item) for item in parts))


def _decode_stop(value: object) -> Stop:
    for stop in get_args(Stop):
        if stop == value:
            return cast("Stop", stop)
    raise ValueError(f"unknown stop reason {value!r}")


def _encode_part(part: Content | ReplyPart) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"text": text, "quoted": True} if part.quoted else {"text": text}
        case Image(data, media_type):
            return {"image": base64.b64encode(data).decode(), "type": media_type}
        case File(data, media_type, name):
            return {"file": base64.b64encode(data).decode(), "type": media_type, "name": name}
        case Reasoning() | Opaque():
            return _encode_unread(part)
        case Call(name, args, id_, via):
            made = {"call": name, "args": args if isinstance(args, str) else dict(args), "id": id_}
            return {**made, "via": via} if via else made
        case TruncatedCall(name, id_, args):
            return {"truncated_call": name, "args": args, "id": id_}
        case _:
            assert_never(part)


def _encode_unread(part: Reasoning | Opaque) -> dict[str, Any]:
    if isinstance(part, Reasoning):
        return {"reasoning": part.text, "signature": part.signature, "api": part.api}
    return {"opaque": part.data, "api": part.api, "kind": part.kind}


def _decode_content(value: object) -> Content:
    plain = _as_object(value)
    if "text" in plain:
        quoted = _expect(bool, plain.get("quoted", False))
        return Text(_expect(str, plain["text"]), quoted=quoted)
    if "image" in plain:
        return _decode_image(plain)
    return File(
        _decode_bytes(plain["file"]), _expect(str, plain["type"]), _expect(str, plain["name"])
    )


def _decode_image(plain: dict[str, Any]) -> Image:
    return Image(_decode_bytes(plain["image"]), _expect(str, plain["type"]))


def _decode_opaque(plain: dict[str, Any]) -> Opaque:
    kind = plain["kind"]
    if kind not in ("part", "fields"):
        raise ValueError(f"unknown kind of data {kind!r}")
    return Opaque(_expect(str, plain["opaque"]), _expect(str, plain["api"]), kind)


def _decode_bytes(value: object) -> bytes:
    return base64.b64decode(_expect(str, value), validate=True)


def _decode_part(value: object) -> ReplyPart:
    plain = _as_object(value)
    if "text" in plain:
        return Text(_expect(str, plain["text"]))
    if "image" in plain:
        return _decode_image(plain)
    if "opaque" in plain:
        return _decode_opaque(plain)
    if "reasoning" in plain:
        return Reasoning(*(_expect(str, plain[key]) for key in ("reasoning", "signature", "api")))
    if "call" in plain:
        args = plain["args"]
        arguments = args if isinstance(args, str) else _as_object(args)
        name, id_ = _expect(str, plain["call"]), _expect(str, plain["id"])
        return Call(name, arguments, id_, _expect(str, plain.get("via", "")))
    return TruncatedCall(*(_expect(str, plain[key]) for key in ("truncated_call", "id", "args")))


def decode_usage(value: object) -> Usage:
    """Return token counts from a list."""
    counts = [_as_count(item) for item in _as_list(value)]
    return Usage(**dict(zip(_COUNTS, counts, strict=True)))


_COUNTS = tuple(field.name for field in fields(Usage))
