"""Convert tools to an API's format, and report what is lost or why a tool cannot be sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from handrail import Exposure, Spec, Tool
from handrail.messages import api_name
from handrail.providers._schema.compile import Fitted, compile_arguments, definitions_of
from handrail.providers._schema.data import Malformed, clean_text, data
from handrail.providers._schema.dialects import SchemaSupport
from handrail.providers._schema.limits import Load
from handrail.providers._schema.neutral import plain
from handrail.providers._schema.phrases import quote, sentences
from handrail.providers._schema.references import UnsupportedSchema
from handrail.providers._schema.relations import fits


@dataclass(frozen=True, slots=True)
class CompiledTool:
    """A tool in an API's format."""

    definition: dict[str, Any]
    """An entry in a request's ``tools``."""
    losses: tuple[str, ...] = ()
    """Messages about everything the API cannot represent."""


@dataclass(frozen=True, slots=True)
class UnsupportedTool:
    """A tool an API does not support, and the reason. The other tools are sent."""

    name: str
    reason: str


class StrictBudget(NamedTuple):
    """How much an API enforces in all of a request's tools together."""

    requested: Load
    """For tools with ``strict="on"``."""
    automatic: Load
    """For all other tools."""


class ToolFormat(NamedTuple):
    """How an API represents tools."""

    subset: SchemaSupport
    """The part of JSON Schema it supports."""
    write: Callable[[Spec, Fitted], CompiledTool]
    strict_budget: StrictBudget | None = None


def compile_tool(tool: Tool[..., Any] | Spec, form: ToolFormat) -> CompiledTool | UnsupportedTool:
    """Convert one tool for one API. Never raises, whatever the schema is."""
    spec = tool if isinstance(tool, Spec) else tool.spec
    if spec.exposure is Exposure.HIDDEN:
        return UnsupportedTool(spec.name, "the tool is hidden from models")
    try:
        fitted = _fit(spec, form.subset)
    except UnsupportedSchema as error:
        return UnsupportedTool(spec.name, f"unsupported schema: {error}")
    return form.write(spec, fitted)


_SENT_ALWAYS = "exposure: sent in every request, because nothing is sent that could find the tool"


def _fit(spec: Spec, subset: SchemaSupport) -> Fitted:
    """Compile the schema, in strict mode if wanted and possible. Raises UnsupportedSchema."""
    if subset.strict is not None and spec.strict != "off":
        try:
            fitted = compile_arguments(spec.input_schema, subset, strict=True)
        except UnsupportedSchema as error:
            if spec.strict == "on":
                # this raises if the tool cannot be sent at all
                compile_arguments(spec.input_schema, subset, strict=False)
                hint = "use strict='auto' to send the tool without enforcing its schema"
                raise UnsupportedSchema(f"{error}; {hint}") from None
        else:
            if spec.strict == "on" or not fitted.losses:
                return fitted
    return compile_arguments(spec.input_schema, subset, strict=False)


def base_fields(spec: Spec) -> dict[str, Any]:
    """Return the fields common to every API: the name and, if there is one, the description."""
    name = {"name": api_name(spec.name)}
    return {**name, "description": clean_text(spec.description)} if spec.description else name


def deferral_losses(spec: Spec) -> tuple[str, ...]:
    """Return the loss for a deferred tool sent like any other."""
    return (_SENT_ALWAYS,) if spec.exposure is Exposure.DEFERRED else ()


def sure_examples(spec: Spec, fitted: Fitted, losses: list[str]) -> list[Any]:
    """Return the examples proven to match the schema. Any other would fail every request."""
    definitions = definitions_of(fitted.schema)
    examples: list[Any] = []
    for number, example in enumerate(spec.examples, 1):
        value: Any = None
        try:
            value = data(plain(example))
            sure = fits(fitted.schema, value, definitions) is True
        except (Malformed, UnsupportedSchema):
            sure = False
        if sure:
            examples.append(value)
        else:
            losses.append(f"examples: number {number} is omitted: it may not match the schema")
    return examples


def describe_examples(spec: Spec, fitted: Fitted) -> tuple[dict[str, Any], list[str]]:
    """Add the examples to the schema's description, for APIs without a field for them."""
    losses = list(fitted.losses)
    if not spec.examples:
        return fitted.schema, losses
    losses.append("examples: moved to the description")
    try:
        notes = [f"for example {quote(data(plain(example)))}" for example in spec.examples]
    except (Malformed, UnsupportedSchema):
        return fitted.schema, losses
    description = sentences(fitted.schema.get("description", ""), notes)
    return {**fitted.schema, "description": description}, losses
