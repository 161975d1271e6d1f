"""Small modules for any package. They import nothing else from handrail."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeGuard


def is_table(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a value from TOML or JSON is a table, which JSON calls an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a value from TOML or JSON is a list."""
    return isinstance(value, list)
