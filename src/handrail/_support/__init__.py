"""Small modules that any package may use. They import nothing else of handrail."""

from __future__ import annotations

from typing import Any, TypeGuard


def is_table(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a value is a table, which JSON calls an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a value is a list."""
    return isinstance(value, list)
