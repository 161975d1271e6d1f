"""A door that loads what is behind it when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def door(
    package: str, homes: Mapping[str, str], names: dict[str, Any]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package: most programs need few of its names.

    Args:
        package: Its name.
        homes: The module of each public name.
        names: The package's globals, where a name stays once it is loaded.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        names[name] = getattr(import_module(f"{package}.{homes[name]}"), name)
        return names[name]

    def list_all() -> list[str]:
        return sorted({*names, *homes})

    return get, list_all
