"""Tools from an OpenAPI document: one for each operation."""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.openapi._http import guarded_client
    from handrail.openapi._tools import tools
else:
    _MODULES = {"_http": "guarded_client", "_tools": "tools"}

    __getattr__, __dir__ = make_lazy(__name__, _MODULES, globals(), extra="openapi")


__all__ = ["guarded_client", "tools"]
