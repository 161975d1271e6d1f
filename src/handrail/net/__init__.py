"""The way out: which addresses are public, names resolved once, a proxy for sandboxes."""

from handrail.net._addresses import public
from handrail.net._guard import Guard, Resolver
from handrail.net._hosts import canonical
from handrail.net._proxy import Proxy, bridge, variables
from handrail.net._url import Url, read_url

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
