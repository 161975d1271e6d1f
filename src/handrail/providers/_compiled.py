"""One tool as one provider takes it: the wire form and what it loses, or why it cannot be sent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from handrail import Exposure, Spec, Tool, Toolset
from handrail.messages import wire_name
from handrail.providers._data import Malformed, clean_text, data
from handrail.providers._fits import fits
from handrail.providers._limits import Load, load
from handrail.providers._neutral import plain
from handrail.providers._phrases import quoted, sentences
from handrail.providers._references import Unfit
from handrail.providers._subset import (
    ANTHROPIC,
    GOOGLE,
    OPENAI,
    Fitted,
    Subset,
    arguments,
    definitions_of,
    result,
)

Dialect: TypeAlias = Literal["anthropic", "openai_chat", "openai_responses", "gemini"]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A tool as a provider takes it, and what its wire cannot say: each loss in words."""

    wire: dict[str, Any]
    losses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A tool that is not sent, so that the others can be, and why."""

    name: str
    reason: str


_SUBSETS: Mapping[Dialect, Subset] = {
    "anthropic": ANTHROPIC,
    "openai_chat": OPENAI,
    "openai_responses": OPENAI,
    "gemini": GOOGLE,
}
_MOST = Load(tools=20, optional=24, unions=16, size=math.inf)
"""What Anthropic enforces of a request's tools together."""
_WARY = Load(tools=8, optional=12, unions=8, size=8_000)
"""What we let it enforce unasked: all strict tools become one grammar, whose limit is not known."""
_LONGEST = 1024
"""Characters of a description that every server of Chat Completions takes."""


def compiled(tool: Tool[..., Any] | Spec, dialect: Dialect) -> Compiled | Quarantined:
    """One tool in one dialect. Never raises, whatever the schema is."""
    spec = tool if isinstance(tool, Spec) else tool.spec
    if spec.exposure is Exposure.HIDDEN:
        return Quarantined(spec.name, "it is hidden from models")
    try:
        fitted, strict = _fitted(spec, _SUBSETS[dialect])
    except Unfit as unfit:
        return Quarantined(spec.name, f"its schema cannot be sent: {unfit}")
    return _WIRES[dialect](spec, fitted, strict)


def encoded(tools: Toolset | Iterable[Spec], dialect: Dialect) -> list[dict[str, Any]]:
    """The tools of a request, in name order; those that cannot be sent are left out."""
    specs = tools.specs if isinstance(tools, Toolset) else tools
    return [one.wire for one in compiled_all(specs, dialect) if isinstance(one, Compiled)]


def compiled_all(specs: Iterable[Spec], dialect: Dialect) -> tuple[Compiled | Quarantined, ...]:
    """Tools as one request takes them together, in name order; hidden ones are left out.

    Use this for a request: Anthropic limits what is strict in all of its tools together. Those
    that ask for it come first; a tool for which no room is left is sent without.
    """
    shown = [one for one in specs if one.exposure is not Exposure.HIDDEN]
    alone = {one.name: (one, compiled(one, dialect)) for one in sorted(shown, key=_name)}
    if dialect == "anthropic":
        used = Load(tools=0)
        for name in sorted(alone, key=lambda name: (alone[name][0].strict != "on", name)):
            spec, made = alone[name]
            if isinstance(made, Quarantined) or not made.wire.get("strict"):
                continue
            more = used + load(made.wire["input_schema"])
            if more.within(_MOST if spec.strict == "on" else _WARY):
                used = more
            else:
                alone[name] = spec, _relaxed(spec)
    return tuple(made for _, made in alone.values())


def _name(spec: Spec) -> str:
    return spec.name


def _relaxed(spec: Spec) -> Compiled:
    """The same tool without strict: what could be enforced can be sent as it is."""
    fitted = arguments(spec.input_schema, ANTHROPIC, strict=False)
    plain = _anthropic(spec, fitted, strict=False)
    if spec.strict == "auto":
        return plain
    lost = "strict: this request has no room for another strict tool"
    return Compiled(plain.wire, (*plain.losses, lost))


def _fitted(spec: Spec, subset: Subset) -> tuple[Fitted, bool]:
    """The schema, strict where that is wanted and can be; raises Unfit."""
    if subset.strict is not None and spec.strict != "off":
        try:
            made = arguments(spec.input_schema, subset, strict=True)
        except Unfit as unfit:
            if spec.strict == "on":
                arguments(spec.input_schema, subset, strict=False)  # or it cannot be sent at all
                raise Unfit(f"{unfit}; strict='auto' would send it without that") from None
        else:
            if spec.strict == "on" or not made.losses:
                return made, True
    return arguments(spec.input_schema, subset, strict=False), False


def _anthropic(spec: Spec, fitted: Fitted, strict: bool) -> Compiled:  # noqa: FBT001
    wire = {**_head(spec), "input_schema": fitted.schema}
    lost = list(fitted.losses)
    if strict:
        wire["strict"] = True
    if spec.examples:
        wire["input_examples"] = _examples(spec, fitted, lost)
        if not wire["input_examples"]:
            del wire["input_examples"]
    if spec.exposure is Exposure.DEFERRED:
        wire["defer_loading"] = True
    return Compiled(wire, tuple(lost))


def _openai_chat(spec: Spec, fitted: Fitted, strict: bool) -> Compiled:  # noqa: FBT001
    schema, lost = _with_examples(spec, fitted)
    function = _head(spec)
    whole = function.get("description", "")
    if len(whole) > _LONGEST:
        cut = whole.rfind(" ", 0, _LONGEST) + 1 or _LONGEST
        function["description"] = whole[:cut].rstrip()
        rest = whole[cut:].strip()
        schema = {
            **schema,
            "description": "\n\n".join(filter(None, (rest, schema.get("description")))),
        }
    function["parameters"] = schema
    if strict:
        function["strict"] = True
    return Compiled({"type": "function", "function": function}, (*lost, *_undeferred(spec)))


def _openai_responses(spec: Spec, fitted: Fitted, strict: bool) -> Compiled:  # noqa: FBT001
    schema, lost = _with_examples(spec, fitted)
    wire = {"type": "function", **_head(spec), "parameters": schema, "strict": strict}
    if spec.output_schema is not None and spec.output_schema.get("type") in ("object", "array"):
        try:
            promised = result(spec.output_schema)
            wire["output_schema"] = promised.schema
            lost += (f"output_schema: {one}" for one in promised.losses)
        except Unfit as unfit:
            lost.append(f"output_schema: left out, since {unfit}")
    if spec.exposure is Exposure.DEFERRED:
        wire["defer_loading"] = True
    return Compiled(wire, tuple(lost))


def _gemini(spec: Spec, fitted: Fitted, _strict: bool) -> Compiled:  # noqa: FBT001
    schema, lost = _with_examples(spec, fitted)
    if spec.strict == "on":
        lost.append("strict: this wire enforces no schema of a tool")
    return Compiled({**_head(spec), "parametersJsonSchema": schema}, (*lost, *_undeferred(spec)))


_WIRES: Mapping[Dialect, Callable[[Spec, Fitted, bool], Compiled]] = {
    "anthropic": _anthropic,
    "openai_chat": _openai_chat,
    "openai_responses": _openai_responses,
    "gemini": _gemini,
}


def _head(spec: Spec) -> dict[str, Any]:
    wire = {"name": wire_name(spec.name), "description": clean_text(spec.description)}
    return wire if spec.description else {"name": wire["name"]}


def _undeferred(spec: Spec) -> tuple[str, ...]:
    deferred = spec.exposure is Exposure.DEFERRED
    return ("exposure: this wire cannot defer a tool; it is in every request",) if deferred else ()


def _examples(spec: Spec, fitted: Fitted, lost: list[str]) -> list[Any]:
    """The examples that fit for sure: one that does not would fail every request."""
    definitions = definitions_of(fitted.schema)
    made: list[Any] = []
    for place, example in enumerate(spec.examples):
        value: Any = None
        try:
            value = data(plain(example))
            sure = fits(fitted.schema, value, definitions) is True
        except (Malformed, Unfit):
            sure = False
        if sure:
            made.append(value)
        else:
            lost.append(
                f"examples: number {place + 1} is left out, since it may not fit the schema"
            )
    return made


def _with_examples(spec: Spec, fitted: Fitted) -> tuple[dict[str, Any], list[str]]:
    """The schema with examples in its description, where the wire has no place for them."""
    lost = list(fitted.losses)
    if not spec.examples:
        return fitted.schema, lost
    lost.append("examples: they are only described")
    try:
        shown = [f"for example {quoted(data(plain(one)))}" for one in spec.examples]
    except (Malformed, Unfit):
        return fitted.schema, lost
    described = sentences(fitted.schema.get("description", ""), shown)
    return {**fitted.schema, "description": described}, lost
