"""Models from the official SDKs. Each SDK is an extra, imported when you create a model."""

from handrail.models._anthropic import anthropic
from handrail.models._google import gemini
from handrail.models._named import find_credentials, named, suggest_name
from handrail.models._openai import openai_chat, openai_responses
from handrail.models._prices import PriceList, cost, find_window, known_prices
from handrail.models._recorded import recorded
from handrail.models._resilience import RetryWait, fallback, retrying
from handrail.models._sdk_client import ProviderModel

__all__ = [
    "PriceList",
    "ProviderModel",
    "RetryWait",
    "anthropic",
    "cost",
    "fallback",
    "find_credentials",
    "find_window",
    "gemini",
    "known_prices",
    "named",
    "openai_chat",
    "openai_responses",
    "recorded",
    "retrying",
    "suggest_name",
]
