"""Forms: a tool whose calls are answered by a person, with a form's values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

from handrail._definition.arguments import Arguments
from handrail._definition.tool import AnyTool, Tool
from handrail._schema.marks import find_leaves
from handrail._schema.remote import remote_checker
from handrail._values.call import Args
from handrail._values.content import Json
from handrail._values.context import Context
from handrail._values.effect import READ
from handrail._values.errors import ToolFailed
from handrail._values.result import Result
from handrail._values.spec import Spec

FILL_IN = "fill_in"
"""The tool's name, for policies and rules."""
_INPUT: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "question": {"type": "string"},
        "form": {"type": "object"},
        "asker": {"type": "string"},
        "url": {"type": "string"},
        "state": {},
    },
    "required": ["question", "form"],
}


@cache
def form_tool() -> AnyTool:
    """Return the tool that asks the user to fill in a form."""
    spec = Spec(
        name=FILL_IN,
        description="Ask the user to fill in a form.",
        input_schema=dict(_INPUT),
        effect=READ,
        needs_approval=True,  # a call, so it can wait, and rules apply: decision 115
    )
    made = Tool.remote(spec, _accept, origin="handrail", touches=lambda **_: ())
    return replace(made, headline=_make_headline, _asks=True)


async def _accept(args: dict[str, Json], _context: Context) -> Result:
    """Return a form's defaults: the user agreed, and gave no values."""
    form: Any = args["form"]
    fields: Mapping[str, Any] = form.get("properties", {})
    values = {name: field["default"] for name, field in fields.items() if "default" in field}
    missing = [name for name in form.get("required", ()) if name not in values]
    if missing:
        raise ToolFailed(f"Not answered: the form needs values for {', '.join(missing)}.")
    text = json.dumps(values)
    return Result("", text, data=text)


def _make_headline(*, asker: str = "", **_: object) -> str:
    return f"Answer {asker}" if asker else "Answer a question"


def read_values(args: Mapping[str, Json], result: Result) -> dict[str, Json] | None:
    """Return a form's values, or None if it was not filled in. Raises ToolFailed if they misfit."""
    if result.failure is not None:
        return None
    form: Any = args["form"]
    given = Arguments(form, partial(remote_checker, form)).parse(result.data or result.text)
    if not isinstance(given, Args):
        raise ToolFailed(f"The user's answer does not fit the form. {given.message}")
    values: Mapping[str, Json] = json.loads(given.text)
    return {name: value for name, value in values.items() if name in form.get("properties", {})}


def list_answers(args: Mapping[str, Json] | str, result: Result) -> list[str]:
    """Return the texts that a person wrote into a form, without those that it proposed."""
    asked = args if isinstance(args, str) else json.dumps(dict(args))
    if result.failure is not None:
        return []
    written = find_leaves(json.loads(result.data or result.text))
    return [leaf.value for leaf in written if json.dumps(leaf.value)[1:-1] not in asked]
