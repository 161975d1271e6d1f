"""Packages loading their public names on first use."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def name_extra(error: ModuleNotFoundError, what: str, extra: str) -> ModuleNotFoundError:
    """Return the error for a missing package of an extra, with the command to install it."""
    return name_command(error, what, f"pip install 'handrail[{extra}]'")


def name_command(error: ModuleNotFoundError, what: str, command: str) -> ModuleNotFoundError:
    """Return the error for a missing package, with the command to install it."""
    package, _, _ = str(error.name).partition(".")
    text = f"{what} needs {package}, which is not installed. Run: {command}"
    return ModuleNotFoundError(text, name=package)


def make_lazy(
    package: str, modules: Mapping[str, str], names: dict[str, Any], *, extra: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package: most programs need few names.

    Args:
        package: The package's name.
        modules: Each module's public names, with spaces between them.
        names: The package's globals, where a name stays once it is loaded.
        extra: The extra with the imports for the package's modules.
    """
    homes = {name: module for module, listed in modules.items() for name in listed.split()}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            names[name] = getattr(import_module(f"{package}.{homes[name]}"), name)
        except ModuleNotFoundError as error:
            if not extra:
                raise
            raise name_extra(error, f"{package}.{name}", extra) from error
        return names[name]

    def list_all() -> list[str]:
        return sorted({*names, *homes})

    return get, list_all
