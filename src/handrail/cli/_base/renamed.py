"""Commands, options and settings that have a new name. The old name is an error, not an alias."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

COMMANDS: Mapping[str, str] = MappingProxyType({"handrail rules test": "handrail rules replay"})
OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "--dialect": "--api",
        "--host": "--allow-host",
        "--max-usage": "--max-total-tokens",
        "--provider": "--api",
    }
)
SETTINGS: Mapping[str, str] = MappingProxyType(
    {"hosts": "allowed_hosts", "max_usage": "max_total_tokens"}
)
