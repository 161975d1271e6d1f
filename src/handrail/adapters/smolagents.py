"""smolagents: tools run by an executor, called from threads."""

from __future__ import annotations

from typing import Any

from typing_extensions import Unpack

from handrail._support.lazy import name_extra

try:
    from smolagents import Tool  # type: ignore[import-untyped]
    from smolagents.tools import AUTHORIZED_TYPES  # type: ignore[import-untyped]
except ModuleNotFoundError as error:
    raise name_extra(error, __name__, "smolagents") from error

from handrail import Call, Executor, Spec
from handrail.adapters._calls._given import Values, check_values
from handrail.adapters._turns import offer_tools


def tools(executor: Executor, **given: Unpack[Values]) -> list[ExecutorTool]:
    """Return an executor's tools.

    smolagents passes no call id and no context, so all calls run with the options here. It has no
    approvals: give the executor an approver. It lists tools once: use
    ``LongResults(reader="always")`` to let a model read long results.
    """
    checked = check_values(executor, "`smolagents.tools`", given)
    return [ExecutorTool(executor, name, spec, checked) for name, spec in offer_tools(executor)]


class ExecutorTool(Tool):  # type: ignore[misc]  # smolagents has no types
    """One of an executor's tools."""

    name, description, output_type = "", "", "string"
    skip_forward_signature_validation = True

    def __init__(self, executor: Executor, name: str, spec: Spec, given: dict[str, Any]) -> None:
        self.executor, self._own_name, self._given = executor, spec.name, given
        self.name, self.description, self.inputs = name, spec.description, _describe(spec)
        super().__init__()

    def forward(self, **arguments: Any) -> str:
        """Run one call. A failure is a result: an exception would end the other calls."""
        turn = self.executor.turn(**self._given)
        return self.executor.run_sync(Call(self._own_name, arguments), turn=turn).text


def _describe(spec: Spec) -> dict[str, dict[str, Any]]:
    """Return the arguments as smolagents describes them. The executor checks them."""
    required = spec.input_schema.get("required", ())
    described = dict[str, dict[str, Any]]()
    for name, schema in spec.input_schema.get("properties", {}).items():
        kind = schema.get("type")
        known = isinstance(kind, str) and kind in AUTHORIZED_TYPES
        described[name] = {**schema, "type": kind if known else "any"}
        described[name].setdefault("description", name)
        if name not in required:
            described[name]["nullable"] = True
    return described
