"""The table of signatures: what a row holds, and how two values are compared to the last type."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel

from handrail import Context, Tool, tool

Fn = TypeVar("Fn", bound=Callable[..., Any])
Schema = dict[str, Any]

CONTEXT = Context(call_id="c1", idempotency_key="k1")

INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
STRING: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
NULL: Schema = {"type": "null"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row: a function, what a model is told of it, what a model sends, what the function gets."""

    id: str
    fn: Any
    schema: Schema
    sent: dict[str, Any]
    values: dict[str, Any]
    context: str | None = None
    """The parameter that a model must never fill."""
    options: Mapping[str, Any] = field(default_factory=dict)
    ready: Tool[..., Any] | None = None
    """The tool, where it had to be made in the scope of the function."""

    def made(self) -> Tool[..., Any]:
        return self.ready or tool(**self.options)(self.fn)

    def received(self) -> dict[str, Any]:
        """All that the function sees: its own defaults, the checked values and the context."""
        listed = inspect.signature(self.fn).parameters.values()
        own = {one.name: one.default for one in listed if one.default is not one.empty}
        given = {self.context: CONTEXT} if self.context else {}
        return {**own, **self.values, **given}


class Table(list[Case]):
    """Rows, each written as a decorator of the function that it is about."""

    def row(
        self,
        *,
        schema: Schema,
        sent: dict[str, Any],
        values: dict[str, Any],
        context: str | None = None,
    ) -> Callable[[Fn], Fn]:
        def add(fn: Fn) -> Fn:
            self.append(
                Case(
                    id=fn.__name__,
                    fn=fn,
                    schema=schema,
                    sent=sent,
                    values=values,
                    context=context,
                )
            )
            return fn

        return add


def closed(*required: str, **properties: Schema) -> Schema:
    """The schema of an object with these properties and no others."""
    whole: Schema = {"type": "object", "properties": properties}
    if required:
        whole["required"] = list(required)
    return {**whole, "additionalProperties": False}


def array(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, NULL]}


def kinds(value: object) -> object:
    """The type of a value and of everything in it, so that 1, 1.0 and True differ."""
    if isinstance(value, Mapping):
        return type(value), {key: kinds(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return type(value), {type(item) for item in value}
    if isinstance(value, list | tuple):
        return type(value), [kinds(item) for item in value]
    if isinstance(value, BaseModel):
        return type(value), {name: kinds(item) for name, item in value}
    if dataclasses.is_dataclass(value):
        inside = [(one.name, getattr(value, one.name)) for one in dataclasses.fields(value)]
        return type(value), {name: kinds(item) for name, item in inside}
    return type(value)
