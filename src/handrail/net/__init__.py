"""Network access: public addresses, names resolved once, a proxy for sandboxes, and servers."""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.net._addresses import is_loopback, is_public
    from handrail.net._answers import ask_plain, bound_answer, bounded_hooks
    from handrail.net._files import count_files
    from handrail.net._guard import Guard, Resolver
    from handrail.net._hosts import normalize_host
    from handrail.net._proxy import Proxy, bridge, proxy_variables
    from handrail.net._serving import serve_app
    from handrail.net._url import Url, parse_url
    from handrail.net.forms import read_body
else:
    _MODULES = {
        "_addresses": "is_loopback is_public",
        "_answers": "ask_plain bound_answer bounded_hooks",
        "_files": "count_files",
        "_guard": "Guard Resolver",
        "_hosts": "normalize_host",
        "_proxy": "Proxy bridge proxy_variables",
        "_serving": "serve_app",
        "_url": "Url parse_url",
        "forms": "read_body",
    }

    __getattr__, __dir__ = make_lazy(__name__, _MODULES, globals(), extra="mcp")


__all__ = [
    "Guard",
    "Proxy",
    "Resolver",
    "Url",
    "ask_plain",
    "bound_answer",
    "bounded_hooks",
    "bridge",
    "count_files",
    "is_loopback",
    "is_public",
    "normalize_host",
    "parse_url",
    "proxy_variables",
    "read_body",
    "serve_app",
]
