"""The console: web pages on which people answer approval requests and read runs.

``app`` makes an ASGI application. Needs the extra ``handrail[console]``.
"""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.console.application import Console
    from handrail.console.config import (
        ConsoleConfig,
        ConsoleError,
        ConsoleGroup,
        HeaderIdentity,
        OidcIdentity,
        SignedIdentity,
        read_config,
    )
    from handrail.console.runs import export_run
    from handrail.console.serving import app, serve
else:
    _HOMES = {
        "ConsoleError": "config",
        "Console": "application",
        "ConsoleConfig": "config",
        "ConsoleGroup": "config",
        "HeaderIdentity": "config",
        "OidcIdentity": "config",
        "SignedIdentity": "config",
        "app": "serving",
        "export_run": "runs",
        "read_config": "config",
        "serve": "serving",
    }

    __getattr__, __dir__ = make_lazy(__name__, _HOMES, globals(), extra="console")


__all__ = [
    "Console",
    "ConsoleConfig",
    "ConsoleError",
    "ConsoleGroup",
    "HeaderIdentity",
    "OidcIdentity",
    "SignedIdentity",
    "app",
    "export_run",
    "read_config",
    "serve",
]
