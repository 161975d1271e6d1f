"""Forms: the values a request asks for, and reading what a person types."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from handrail import Context, Failure, Json, Spec, Tool
from handrail._support import is_list, is_object
from handrail.approvals._display import Look, inline
from handrail.permissions import Edit, Pending

FieldKind: TypeAlias = Literal["text", "integer", "number", "boolean", "choice", "choices"]

_KINDS: Mapping[str, FieldKind] = {
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "array": "choices",
}
_WORDS: Mapping[FieldKind, str] = {
    "text": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "yes or no",
    "choice": "one of {}",
    "choices": "some of {}, separated by commas",
}
_YES = frozenset({"y", "yes", "true", "on", "1"})
_NO = frozenset({"n", "no", "false", "off", "0"})


@dataclass(frozen=True, slots=True)
class FormField:
    """One value that a form asks for. Its texts are not yet safe to show."""

    name: str
    kind: FieldKind
    title: str = ""
    description: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    """Each value, and its label."""
    required: bool = False
    default: Json = None

    @property
    def label(self) -> str:
        """The title, or the name."""
        return self.title or self.name

    def describe(self) -> str:
        """Return what the field takes, for a person."""
        shown = ", ".join(
            value if label == value else f"{value} ({label})" for value, label in self.choices
        )
        facts = [
            _WORDS[self.kind].format(shown),
            "" if self.required else "optional",
            "" if self.default is None else f"default {self.write_default()}",
        ]
        said = ", ".join(filter(None, facts))
        return f"{said}: {self.description}" if self.description else said

    def write_default(self) -> str:
        """Return the default as a person would type it."""
        if self.default is None:
            return ""
        if isinstance(self.default, bool):
            return "yes" if self.default else "no"
        items: Any = self.default
        return ", ".join(map(str, items)) if is_list(items) else str(items)

    def parse(self, text: str) -> Json:
        """Return a typed text's value. An empty one is the default, or None.

        Raises ValueError, with a message for the person.
        """
        if not text.strip():
            if self.required and self.default is None:
                raise ValueError(f"{self.label}: a value is needed, {self.describe()}")
            return self.default
        try:
            return _PARSERS[self.kind](self, text.strip())
        except ValueError:
            raise ValueError(f"{self.label}: this must be {self.describe()}") from None

    def _parse_choice(self, text: str) -> str:
        for value, label in self.choices:
            if text in {value, label}:
                return value
        raise ValueError(text)

    def _parse_choices(self, text: str) -> Json:
        return [self._parse_choice(item.strip()) for item in text.split(",") if item.strip()]

    def _parse_boolean(self, text: str) -> bool:
        if text.lower() not in _YES | _NO:
            raise ValueError(text)
        return text.lower() in _YES


def _parse_text(_field: FormField, text: str) -> str:
    return text


def _parse_integer(_field: FormField, text: str) -> int:
    return int(text)


def _parse_number(_field: FormField, text: str) -> float:
    value = float(text)
    json.dumps(value, allow_nan=False)
    return value


_PARSERS: Mapping[FieldKind, Callable[[FormField, str], Json]] = {
    "text": _parse_text,
    "integer": _parse_integer,
    "number": _parse_number,
    "boolean": FormField._parse_boolean,  # noqa: SLF001  its own
    "choice": FormField._parse_choice,  # noqa: SLF001
    "choices": FormField._parse_choices,  # noqa: SLF001
}


@dataclass(frozen=True, slots=True)
class Form:
    """The values a tool or its server asks a person for. Its texts are not safe to show."""

    question: str
    asker: str
    """Who asks, if not the tool itself."""
    url: str
    """An address to open, if any."""
    fields: tuple[FormField, ...]
    schema: Mapping[str, Json]

    def fill(self, typed: Mapping[str, str]) -> Edit:
        """Return typed texts as an answer. An empty text is the default, or no value.

        Raises ValueError with what to correct, also for an unknown name.
        """
        unknown = [name for name in typed if all(one.name != name for one in self.fields)]
        if unknown:
            raise ValueError(f"the form has no field {unknown[0]!r}")
        values: dict[str, Json] = {}
        for one in self.fields:
            value = one.parse(typed.get(one.name, ""))
            values |= {} if value is None else {one.name: value}
        return Edit(values)

    def check(self, values: Mapping[str, Json] | str) -> None:
        """Raise ValueError with what to correct, if values, or their JSON, do not fit the form."""
        spec = Spec(name="form", description="A form.", input_schema=self.schema)
        found = Tool.remote(spec, _send_nothing).parse(values)
        failed = found.message if isinstance(found, Failure) else ""
        if failed:
            lines = [line[2:] for line in failed.splitlines() if line.startswith("- ")]
            raise ValueError("; ".join(lines) or failed)


async def _send_nothing(_args: dict[str, Json], _context: Context[Any]) -> None: ...


def ask_values(form: Form, ask: Callable[[str], str], show: Callable[[str, Look], None]) -> Edit:
    """Let a person type a form's values, one on each line, until each is valid."""
    typed: dict[str, str] = {}
    for one in form.fields:
        while one.name not in typed:
            text = ask(f"{inline(one.label)} ({inline(one.describe())}): ")
            try:
                one.parse(text)
                typed[one.name] = text
            except ValueError as error:
                show(inline(str(error)), "warning")
    return form.fill(typed)


def read_form(pending: Pending) -> Form:
    """Return a request's form. Raises ValueError if its kind is not ``form``."""
    if pending.kind != "form":
        raise ValueError("This request has no form.")
    args: Any = json.loads(str(pending.call.args))
    schema: Any = args["form"]
    required: Any = schema.get("required", ())
    fields: Any = schema.get("properties", {})
    return Form(
        question=args["question"],
        asker=args.get("asker", ""),
        url=args.get("url", ""),
        fields=tuple(_read_field(name, one, required) for name, one in fields.items()),
        schema=schema,
    )


def _read_field(name: str, field: Any, required: Any) -> FormField:
    choices = _list_choices(field) or _list_choices(field.get("items"))
    kind = _KINDS.get(str(field.get("type")), "text")
    if choices and kind != "choices":
        kind = "choice"
    return FormField(
        name,
        kind,
        str(field.get("title", "")),
        str(field.get("description", "")),
        choices,
        name in required,
        field.get("default"),
    )


def _list_choices(field: Any) -> tuple[tuple[str, str], ...]:
    """Return a choice's values, however the protocol writes them."""
    if not is_object(field):
        return ()
    titled: Any = field.get("oneOf") or field.get("anyOf")
    if is_list(titled):
        return tuple((str(one["const"]), str(one.get("title", one["const"]))) for one in titled)
    values: Any = field.get("enum", ())
    names: Any = field.get("enumNames") or values
    return tuple((str(value), str(name)) for value, name in zip(values, names, strict=False))
