"""CrewAI: tools run by an executor."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ConfigDict, Field, PrivateAttr, create_model
from typing_extensions import Unpack

from handrail._support.lazy import name_command

try:
    from crewai.tools import BaseTool
    from crewai.tools.tool_failure import ToolFailure
except ModuleNotFoundError as error:
    command = (
        r"printf 'pydantic>=2.14\njiter>=0.19\n' > overrides.txt; "
        "uv pip install handrail 'crewai>=1.15,<2' --override overrides.txt"
    )
    raise name_command(error, __name__, command) from error

from handrail import Call, Executor, Result, Spec
from handrail.adapters._calls._given import Values, check_values
from handrail.adapters._turns import offer_tools


def tools(executor: Executor, **given: Unpack[Values]) -> list[ExecutorTool]:
    """Return an executor's tools.

    CrewAI passes no call id and no context, so all calls run with the options here. It has no
    approvals for calls: give the executor an approver. It lists tools once: use
    ``LongResults(reader="always")`` to let a model read long results.
    """
    checked = check_values(executor, "`crewai.tools`", given)
    return [_make_tool(executor, name, spec, checked) for name, spec in offer_tools(executor)]


def _make_tool(executor: Executor, name: str, spec: Spec, given: dict[str, Any]) -> ExecutorTool:
    made = ExecutorTool(
        name=name,
        description=spec.description,
        args_schema=to_model(spec),
        cache_function=_never_cache,
    )
    return made.bind(executor, spec, given)


def _never_cache(*_: Any) -> bool:
    """A second call with the same arguments runs again: its result may have changed."""
    return False


def to_model(spec: Spec) -> Any:
    """Return a tool's arguments as a pydantic model. The executor checks them."""
    required = spec.input_schema.get("required", ())
    fields: Any = {
        name: (Any, _to_field(schema, is_required=name in required))
        for name, schema in spec.input_schema.get("properties", {}).items()
    }
    made: Any = create_model(spec.name, __config__=ConfigDict(extra="allow"), **fields)
    return made


def _to_field(schema: dict[str, Any], *, is_required: bool) -> Any:
    about = schema.get("description") or json.dumps(schema)
    made: Any = Field(... if is_required else None, description=about, json_schema_extra=schema)
    return made


class ExecutorTool(BaseTool):
    """One of an executor's tools."""

    _executor: Any = PrivateAttr()
    _spec: Any = PrivateAttr()
    _given: Any = PrivateAttr()

    def bind(self, executor: Executor, spec: Spec, given: dict[str, Any]) -> ExecutorTool:
        self._executor, self._spec, self._given = executor, spec, given
        return self

    def _run(self, **arguments: Any) -> str | ToolFailure:
        """Run one call, from a CrewAI thread."""
        turn = self._executor.turn(**self._given)
        return _show(self._executor.run_sync(self._prepare(arguments), turn=turn))

    async def _arun(self, **arguments: Any) -> str | ToolFailure:
        turn = self._executor.turn(**self._given)
        return _show(await turn.run(self._prepare(arguments)))

    def _prepare(self, arguments: dict[str, Any]) -> Call:
        """Return the call, without the arguments CrewAI has filled in."""
        required = self._spec.input_schema.get("required", ())
        kept = {
            name: value
            for name, value in arguments.items()
            if value is not None or name in required
        }
        return Call(self._spec.name, kept)


def _show(result: Result) -> str | ToolFailure:
    return result.text if result.failure is None else ToolFailure(message=result.text)
