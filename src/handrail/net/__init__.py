"""Network access: public addresses, names resolved once, a proxy for sandboxes, and servers."""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.net._addresses import is_public
    from handrail.net._answers import ask_plain, bound_answer, bounded_hooks
    from handrail.net._files import count_files
    from handrail.net._guard import Guard, Resolver
    from handrail.net._hosts import normalize_host
    from handrail.net._proxy import Proxy, bridge, proxy_variables
    from handrail.net._serving import serve_app
    from handrail.net._url import Url, parse_url
    from handrail.net.forms import read_body
else:
    _HOMES = {
        "Guard": "_guard",
        "Proxy": "_proxy",
        "Resolver": "_guard",
        "Url": "_url",
        "ask_plain": "_answers",
        "bound_answer": "_answers",
        "bounded_hooks": "_answers",
        "bridge": "_proxy",
        "count_files": "_files",
        "is_public": "_addresses",
        "normalize_host": "_hosts",
        "parse_url": "_url",
        "proxy_variables": "_proxy",
        "read_body": "forms",
        "serve_app": "_serving",
    }

    __getattr__, __dir__ = make_lazy(__name__, _HOMES, globals(), extra="mcp")


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
    "is_public",
    "normalize_host",
    "parse_url",
    "proxy_variables",
    "read_body",
    "serve_app",
]
