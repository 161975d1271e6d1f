"""Variables in configurations: ``${VAR}``, ``${VAR:-default}``, ``${env:VAR}``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from handrail import HandrailError
from handrail._support import is_list, is_object

_HOLE = re.compile(r"\$\{([^{}]*)\}")


class ConfigError(HandrailError):
    """An unusable server configuration. The message says why."""


def expand(value: Any, variables: Mapping[str, str], workspace: str) -> Any:
    """Return a value with every variable replaced, in texts at any depth.

    Raises ConfigError for an unset variable without a default.
    """
    if isinstance(value, str):
        return _HOLE.sub(lambda hole: _value(hole[1], variables, workspace), value)
    if is_list(value):
        return [expand(item, variables, workspace) for item in value]
    if is_object(value):
        return {key: expand(item, variables, workspace) for key, item in value.items()}
    return value


def _value(hole: str, variables: Mapping[str, str], workspace: str) -> str:
    if hole == "workspaceFolder":
        return workspace
    if hole.startswith("input:"):
        raise ConfigError(f"it asks for the input {hole[6:]!r}: set a variable instead")
    name, has_default, default = hole.removeprefix("env:").partition(":-")
    if variables.get(name):
        return variables[name]
    if not has_default:
        raise ConfigError(f"the variable {name!r} is not set")
    return default
