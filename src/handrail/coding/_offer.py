"""Edit each coding agent request: offer the usable tools, and say the mode."""

from __future__ import annotations

from handrail import Toolset
from handrail.messages import Model, Request, model_names
from handrail.policy import Mode, Rulebook

_PATCHING = ("gpt-", "codex-", "o3", "o4")
"""Name prefixes for models that know ``apply_patch`` patches."""
_MODES = {
    Mode.PLAN: "plan. Nothing can be changed: explore, then write a plan.",
    Mode.ASK: "ask. Changes, and commands that no rule allows, need approval.",
    Mode.EDITS: "edits. Files can be changed; commands that no rule allows need approval.",
    Mode.OPEN: "open. Calls run without approval.",
}
_ASK_AT_END = " Then call finish_plan."


def choose_tools(tools: Toolset, model: Model, rules: Rulebook) -> Toolset:
    """Return the tools to offer to a model: those it knows how to use, and that can run."""
    patches = "apply_patch" in tools and any(map(_knows_patches, model_names(model)))
    dropped = {"edit"} if patches else {"apply_patch"}
    if rules.mode is Mode.PLAN:
        dropped |= {spec.name for spec in tools.specs if rules.denies_all(spec, ())}
    else:
        dropped.add("finish_plan")
    return tools.without(*(name for name in dropped if name in tools))


def _knows_patches(name: str) -> bool:
    return name.rpartition("/")[2].startswith(_PATCHING)


class RequestEditor:
    """Changes each request: it says the mode, and has the usable tools."""

    def __init__(self, model: Model, rules: Rulebook) -> None:
        self._model = model
        self._rules = rules
        self._last: tuple[Toolset, Mode, Toolset] | None = None

    def __call__(self, request: Request) -> Request:
        mode = self._rules.mode
        tools = self._choose(request.tools, mode)
        asks = mode is Mode.PLAN and "finish_plan" in tools
        said = f"Mode: {_MODES[mode]}{_ASK_AT_END * asks}"
        return request._replace(tools=tools, system=f"{request.system}\n\n{said}")

    def _choose(self, tools: Toolset, mode: Mode) -> Toolset:
        """Return the tools to offer: one set for the same tools, so it is encoded once."""
        if self._last is None or self._last[0] is not tools or self._last[1] is not mode:
            self._last = tools, mode, choose_tools(tools, self._model, self._rules)
        return self._last[2]
