"""The page about servers: its code runs against a server that speaks as that one does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google.genai import Client

from handrail import READ, tool
from handrail.agent import Agent
from handrail.messages import Reply
from models import dialects
from models.dialects import key_of
from models.stage import Answer, provider

PAGE = Path(__file__).parents[2] / "docs" / "models" / "servers.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def anyio_backend() -> str:
    """The loops do not differ in what is said."""
    return "asyncio"


@tool(effect=READ)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Case(NamedTuple):
    """A model of a section, the server's way to speak, and what the server must receive."""

    heading: str
    address: str
    """The server's address on the page, without a path."""
    speaks: tuple[Answer, Answer]
    path: str
    key: str
    model: str | None
    """The name of the model in the body."""
    variable: str = "model"


VERTEX = "https://europe-west1-aiplatform.googleapis.com"
AZURE = "https://my-resource.openai.azure.com"
PLACE = "projects/my-project/locations/europe-west1/publishers"
CASES = [
    Case(
        "Amazon Bedrock",
        "https://bedrock-mantle.eu-west-1.api.aws/anthropic",
        dialects.anthropic(),
        "/v1/messages",
        "bedrock-api-key",
        "anthropic.claude-opus-5",
    ),
    Case(
        "Google Vertex AI",
        VERTEX,
        dialects.gemini(),
        f"/v1beta1/{PLACE}/google/models/gemini-3-pro:streamGenerateContent?alt=sse",
        "access-token",
        None,
    ),
    Case(
        "Google Vertex AI",
        VERTEX,
        dialects.anthropic(),
        f"/v1/{PLACE}/anthropic/models/claude-opus-5:streamRawPredict",
        "token",
        None,
        "claude",
    ),
    Case(
        "Azure OpenAI",
        AZURE,
        dialects.responses(),
        "/openai/v1/responses",
        "azure-key",
        "my-deployment",
    ),
    Case(
        "Azure OpenAI",
        AZURE,
        dialects.azure(),
        "/openai/deployments/my-deployment/chat/completions?api-version=2024-10-21",
        "azure-key",
        "my-deployment",
        "chat",
    ),
    Case(
        "OpenRouter",
        "https://openrouter.ai",
        dialects.openrouter(),
        "/api/v1/chat/completions",
        "sk-or-...",
        "anthropic/claude-opus-5",
    ),
    Case(
        "LiteLLM",
        "http://localhost:4000",
        dialects.litellm(),
        "/v1/chat/completions",
        "sk-...",
        "my-model",
    ),
    Case(
        "vLLM",
        "http://127.0.0.1:8000",
        dialects.vllm(),
        "/v1/chat/completions",
        "none",
        "Qwen/Qwen3-8B",
    ),
    Case(
        "Ollama",
        "http://127.0.0.1:11434",
        dialects.ollama(),
        "/v1/chat/completions",
        "none",
        "qwen3:4b",
    ),
]


def run_section(heading: str, address: str, url: str) -> dict[str, Any]:
    """Run the code below a heading with another address; its names."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    text, _, _ = rest.partition("\n## ")
    names: dict[str, Any] = {}
    assert address in text
    for source in _BLOCK.findall(text):
        exec(source.replace(address, url), names)  # noqa: S102  our own documents
    return names


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.heading} {case.variable}")
async def test_the_code_of_a_section_calls_a_tool_and_answers(case: Case) -> None:
    with provider(*case.speaks) as stage:
        names = run_section(case.heading, case.address, stage.url)
        done = await Agent(names[case.variable], [add]).run("What is 1 + 2?")
        for name in ("client", "claude_client"):
            if name in names:
                client = names[name]
                await (client.aio.aclose() if isinstance(client, Client) else client.close())

    assert (done.stop_reason, done.text) == ("answer", "It is 3.")
    replies = [message for message in done.state.messages if isinstance(message, Reply)]
    assert [(call.name, call.args) for call in replies[0].calls] == [("add", dialects.ARGS)]
    assert replies[0].usage.total == 19
    for asked in stage.asked:
        assert (asked.path, key_of(asked)) == (case.path, case.key)
        assert asked.body.get("model") == case.model
    assert len(stage.asked) == 2
