"""What was read from TOML or JSON, told apart for the type checkers."""

from __future__ import annotations

from typing import Any, TypeGuard


def is_table(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether this is a table, which JSON calls an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether this is a list."""
    return isinstance(value, list)
