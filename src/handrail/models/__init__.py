"""Models from the official SDKs. Each SDK is an extra, imported when you create a model."""

from handrail.models._anthropic import anthropic
from handrail.models._google import gemini
from handrail.models._openai import openai_chat, openai_responses
from handrail.models._sdk_client import ProviderModel

__all__ = ["ProviderModel", "anthropic", "gemini", "openai_chat", "openai_responses"]
