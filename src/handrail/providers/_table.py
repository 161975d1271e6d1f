"""Provider table: each API with its prefix, SDK, keys and address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider's API, and what you need to use it."""

    api: str
    """The API: a module in ``handrail.providers`` and a function in ``handrail.models``."""
    name: str
    """The provider's name, for messages."""
    prefix: str
    """Model name prefix, as in ``openai:NAME``."""
    extra: str
    """handrail extra for installing the provider's SDK."""
    keys: tuple[str, ...]
    """Environment variables with the API key. The SDK reads them, and one is enough."""
    server: str
    """The provider API's address. ``handrail doctor`` checks the connection to it."""

    @property
    def cli_name(self) -> str:
        """The API as it is written on the command line, such as ``openai-chat``."""
        return self.api.replace("_", "-")


_OPENAI_KEYS = ("OPENAI_API_KEY",)
_OPENAI_SERVER = "https://api.openai.com"

PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        provider.api: provider
        for provider in (
            Provider(
                api="anthropic",
                name="Anthropic",
                prefix="anthropic",
                extra="anthropic",
                keys=("ANTHROPIC_API_KEY",),
                server="https://api.anthropic.com",
            ),
            Provider(
                api="openai_chat",
                name="OpenAI",
                prefix="openai-chat",
                extra="openai",
                keys=_OPENAI_KEYS,
                server=_OPENAI_SERVER,
            ),
            Provider(
                api="openai_responses",
                name="OpenAI",
                prefix="openai",
                extra="openai",
                keys=_OPENAI_KEYS,
                server=_OPENAI_SERVER,
            ),
            Provider(
                api="gemini",
                name="Gemini",
                prefix="gemini",
                extra="google",
                keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
                server="https://generativelanguage.googleapis.com",
            ),
        )
    }
)
"""Every provider, by its API."""
