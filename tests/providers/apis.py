"""The four APIs by name, for tests that apply to all of them."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

from handrail.providers import anthropic, gemini, openai_chat, openai_responses

APIS: dict[str, ModuleType] = {
    "anthropic": anthropic,
    "gemini": gemini,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
}
CORPUS = Path(__file__).parents[1] / "data" / "providers" / "streams"


def corpus(api: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((CORPUS / f"{api}.json").read_text(encoding="utf-8"))
    return cases
