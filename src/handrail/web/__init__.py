"""A chat's HTTP side: streams, conversations, approvals and files, as one ASGI application.

``ChatApp`` serves an agent, or durable runs. Needs the extra ``handrail[web-app]``.
"""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.web._application import ChatApp
    from handrail.web._visitor import Visitor
else:
    _MODULES = {"_application": "ChatApp", "_visitor": "Visitor"}

    __getattr__, __dir__ = make_lazy(__name__, _MODULES, globals(), extra="web-app")


__all__ = ["ChatApp", "Visitor"]
