"""Models by name: early errors about everything that is missing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from handrail import HandrailError
from handrail.messages import ModelError
from handrail.models import named


@pytest.fixture(autouse=True)
def no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefixes = ("ANTHROPIC", "GEMINI", "GOOGLE", "OPENAI")
    for name in [name for name in os.environ if name.startswith(prefixes)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("anthropic:claude-opus-5", "ANTHROPIC_API_KEY"),
        ("gemini:gemini-3-pro", "GOOGLE_API_KEY"),
        ("openai:gpt-5", "OPENAI_API_KEY"),
        ("openai-chat:gpt-5", "OPENAI_API_KEY"),
    ],
)
def test_a_model_is_created_by_its_name(
    name: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "k")

    assert repr(named(name)) == f"<model {name.partition(':')[2]!r}>"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpt-5", "Unknown model 'gpt-5'. Did you mean 'openai:gpt-5'?"),
        (
            "claude-opus-5",
            "Unknown model 'claude-opus-5'. Did you mean 'anthropic:claude-opus-5'?",
        ),
        ("antropic:x", "Unknown model 'antropic:x'. Did you mean 'anthropic:x'?"),
        ("openai:", "Unknown model 'openai:'. Add the name of the model, as in 'openai:NAME'."),
        ("openai", "Unknown model 'openai'. Add the name of the model, as in 'openai:NAME'."),
        (
            "llama",
            (
                "Unknown model 'llama'. Use PROVIDER:NAME with one of anthropic, gemini, openai, "
                "openai-chat."
            ),
        ),
        (
            "nosuch:x",
            (
                "Unknown model 'nosuch:x'. Use PROVIDER:NAME with one of anthropic, gemini, openai, "
                "openai-chat."
            ),
        ),
    ],
)
def test_an_unknown_name_says_what_was_probably_meant(name: str, message: str) -> None:
    with pytest.raises(ModelError) as raised:
        named(name)

    assert (raised.value.kind, str(raised.value)) == ("not_found", message)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("anthropic:x", "No API key for Anthropic. Set ANTHROPIC_API_KEY."),
        ("gemini:x", "No API key for Gemini. Set GEMINI_API_KEY or GOOGLE_API_KEY."),
        ("openai:x", "No API key for OpenAI. Set OPENAI_API_KEY."),
    ],
)
def test_a_missing_key_names_the_variable(name: str, message: str) -> None:
    with pytest.raises(ModelError) as raised:
        named(name)

    assert (raised.value.kind, str(raised.value)) == ("auth", message)


def test_other_credentials_of_a_provider_are_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "1")
    (tmp_path / ".config" / "anthropic").mkdir(parents=True)

    assert [repr(named(name)) for name in ("gemini:x", "anthropic:x")] == ["<model 'x'>"] * 2


def test_another_server_or_a_passed_key_needs_no_variable() -> None:
    assert (
        repr(named("openai-chat:qwen3", base_url="http://127.0.0.1:8080/v1")) == "<model 'qwen3'>"
    )
    assert repr(named("openai:gpt-5", key="k")) == "<model 'gpt-5'>"


def test_a_missing_sdk_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)

    with pytest.raises(HandrailError) as raised:
        named("anthropic:claude-opus-5")

    assert str(raised.value) == (
        "The SDK for Anthropic is not installed. Run: pip install 'handrail[anthropic]'"
    )
