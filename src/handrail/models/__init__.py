"""Clients of models: the official SDKs, an extra each, loaded when a model is made."""

from handrail.models._anthropic import anthropic
from handrail.models._google import gemini
from handrail.models._openai import openai_chat, openai_responses

__all__ = ["anthropic", "gemini", "openai_chat", "openai_responses"]
