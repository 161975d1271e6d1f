"""The way out: which addresses are public, names resolved once, a proxy for sandboxes."""

from typing import TYPE_CHECKING

from handrail._door import door

if TYPE_CHECKING:
    from handrail.net._addresses import public
    from handrail.net._guard import Guard, Resolver
    from handrail.net._hosts import canonical
    from handrail.net._proxy import Proxy, bridge, variables
    from handrail.net._url import Url, read_url
else:
    _HOMES = {
        "Guard": "_guard",
        "Proxy": "_proxy",
        "Resolver": "_guard",
        "Url": "_url",
        "bridge": "_proxy",
        "canonical": "_hosts",
        "public": "_addresses",
        "read_url": "_url",
        "variables": "_proxy",
    }

    __getattr__, __dir__ = door(__name__, _HOMES, globals())


__all__ = [
    "Guard",
    "Proxy",
    "Resolver",
    "Url",
    "bridge",
    "canonical",
    "public",
    "read_url",
    "variables",
]
