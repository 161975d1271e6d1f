"""Credentials: what each principal proves itself with at a service. Requires handrail[credentials].

Tables and functions need no extra.
"""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.credentials._by_principal import Credentials, CredentialSource
    from handrail.credentials._exchange import TokenExchange
    from handrail.credentials._login import OAuthClient, PersonalLogin
    from handrail.credentials._pages import LoginPages
    from handrail.credentials._store import TokenStore
else:
    _MODULES = {
        "_by_principal": "CredentialSource Credentials",
        "_exchange": "TokenExchange",
        "_login": "OAuthClient PersonalLogin",
        "_pages": "LoginPages",
        "_store": "TokenStore",
    }

    __getattr__, __dir__ = make_lazy(__name__, _MODULES, globals(), extra="credentials")


__all__ = [
    "CredentialSource",
    "Credentials",
    "LoginPages",
    "OAuthClient",
    "PersonalLogin",
    "TokenExchange",
    "TokenStore",
]
