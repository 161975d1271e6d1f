"""Packages that load their public names on first use."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def make_lazy(
    package: str, homes: Mapping[str, str], names: dict[str, Any]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package: most programs need few of its names.

    Args:
        package: The package's name.
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
