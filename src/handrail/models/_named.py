"""Models by name, such as ``openai:gpt-5``, with early errors about everything missing."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from handrail.messages import ModelError
from handrail.models._anthropic import anthropic
from handrail.models._failures import missing_key
from handrail.models._google import gemini
from handrail.models._openai import openai_chat, openai_responses
from handrail.models._sdk_client import ProviderModel
from handrail.providers import PROVIDERS, Provider

BY_PREFIX: Mapping[str, Provider] = MappingProxyType(
    {provider.prefix: provider for provider in PROVIDERS.values()}
)
"""Providers by model name prefix."""
_MAKERS: Mapping[str, Callable[..., ProviderModel]] = {
    "anthropic": anthropic,
    "gemini": gemini,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
}
_FAMILIES = {
    "anthropic": re.compile("claude"),
    "gemini": re.compile("gemini|gemma"),
    "openai": re.compile(r"gpt|chatgpt|o\d"),
}
"""How well-known model names begin, by prefix."""


def named(
    name: str, *, base_url: str | None = None, key: str | None = None, retries: int = 2
) -> ProviderModel:
    """Return the model for a name such as ``anthropic:claude-opus-5`` or ``openai:gpt-5``.

    Raises ModelError for an unknown name or a missing API key, and HandrailError for a missing SDK.

    Args:
        name: ``PROVIDER:NAME``, with the provider ``anthropic``, ``gemini``, ``openai`` (Responses)
            or ``openai-chat`` (Chat Completions).
        base_url: Another server's address. It receives no key from the environment.
        key: The API key. By default, the SDK reads it from the environment.
        retries: How often the SDK repeats a failed request.
    """
    prefix, _, rest = name.partition(":")
    provider = BY_PREFIX.get(prefix)
    if provider is None or not rest:
        raise ModelError(f"Unknown model {name!r}.", "not_found", hint=_hint(name))
    model = _MAKERS[provider.api](rest, base_url=base_url, key=key, retries=retries)
    if base_url is None and key is None and find_credentials(provider) is None:
        raise missing_key(provider.api)
    return model


def _hint(name: str) -> str:
    if name.partition(":")[0] in BY_PREFIX:
        return f"Add the name of the model, as in '{name.rstrip(':')}:NAME'."
    meant = suggest_name(name)
    if meant:
        return f"Did you mean {meant!r}?"
    return f"Use PROVIDER:NAME with one of {', '.join(sorted(BY_PREFIX))}."


def suggest_name(name: str) -> str:
    """Return a likely correction for an unknown name, or an empty string."""
    prefix, colon, rest = name.partition(":")
    if colon:
        from difflib import get_close_matches  # rarely needed

        near = get_close_matches(prefix, BY_PREFIX, 1)
        return f"{near[0]}:{rest}" if near else ""
    family = next((known for known, begins in _FAMILIES.items() if begins.match(name)), "")
    return f"{family}:{name}" if family else ""


def find_credentials(provider: Provider) -> str | None:
    """Return the variable or the folder with a provider's credentials.

    SDKs accept more than API keys: any provider variable is enough, and its folder in ~/.config.
    The SDK finds out whether they work.
    """
    families = {key.partition("_")[0] for key in provider.keys}
    variables = [
        name for name, value in os.environ.items() if value and name.partition("_")[0] in families
    ]
    home = Path(os.path.expanduser("~"))  # noqa: PTH111  raises nothing
    folders = [home / ".config" / family.lower() for family in families]
    found = [
        *(key for key in provider.keys if key in variables),
        *sorted(variables),
        *(str(folder) for folder in folders if folder.exists()),
    ]
    return found[0] if found else None
