"""The console: web pages on which people answer approval requests and read runs.

``app`` makes an ASGI application. Needs the extra ``handrail[console]``.
"""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.console._application import Console
    from handrail.console._config import (
        ConsoleConfig,
        ConsoleError,
        ConsoleGroup,
        HeaderIdentity,
        OidcIdentity,
        SignedIdentity,
        read_config,
    )
    from handrail.console._runs import export_run
    from handrail.console._serving import app, serve
else:
    _MODULES = {
        "_application": "Console",
        "_config": (
            "ConsoleConfig ConsoleError ConsoleGroup HeaderIdentity OidcIdentity SignedIdentity "
            "read_config"
        ),
        "_runs": "export_run",
        "_serving": "app serve",
    }

    __getattr__, __dir__ = make_lazy(__name__, _MODULES, globals(), extra="console")


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
