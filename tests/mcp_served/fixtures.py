"""`fixtures.py`: the tools, resources and prompts that the official conformance suite calls.

It serves them on a free port of this machine, which it prints.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio

from handrail import READ, Allow, Context, Executor, File, Image, Spec, Text, Tool, Toolset, tool
from handrail.mcp.server import (
    ResourceUpdates,
    ServedPrompt,
    ServedResource,
    bind,
    http_app,
    make_server,
    serve_http,
)
from handrail.messages import Prompt

PNG = b"\x89PNG\r\n\x1a\n"
DIALECT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}
DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    },
}
_OPTIONS = ["option1", "option2", "option3"]
_TITLED = [
    {"const": f"value{number}", "title": f"{word} Option"}
    for number, word in enumerate(("First", "Second", "Third"), 1)
]
ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": _OPTIONS},
        "titledSingle": {"type": "string", "oneOf": _TITLED},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
    },
}
USER = {
    "type": "object",
    "properties": {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    },
    "required": ["username", "email"],
}


@tool(effect=READ)
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@tool(effect=READ)
def test_image_content() -> Image:
    """Return an image."""
    return Image(PNG)


@tool(effect=READ)
def test_audio_content() -> File:
    """Return a sound."""
    return File(b"RIFF", "audio/wav", "sound.wav")


@tool(effect=READ)
def test_embedded_resource() -> File:
    """Return a file."""
    return File(b"This is an embedded resource content.", "text/plain", "embedded.txt")


@tool(effect=READ)
def test_multiple_content_types() -> list[str | Image | File]:
    """Return a text, an image and a file."""
    data = File(json.dumps({"test": "data"}).encode(), "application/json", "mixed.json")
    return ["Multiple content types test:", Image(PNG), data]


@tool(effect=READ)
def test_error_handling() -> str:
    """Fail."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@tool(effect=READ)
async def test_tool_with_progress(context: Context) -> str:
    """Report progress."""
    for part in (0.0, 0.5, 1.0):
        context.progress(f"{part:g}", part)
        await anyio.sleep(0.05)
    return "done"


@tool(effect=READ)
async def test_elicitation(message: str, context: Context) -> str:
    """Ask for values."""
    return f"User response: {await context.ask(message, USER)}"


@tool(effect=READ)
async def test_elicitation_sep1034_defaults(context: Context) -> str:
    """Ask for values with defaults."""
    return f"Elicitation completed: {await context.ask('Please review.', DEFAULTS)}"


@tool(effect=READ)
async def test_elicitation_sep1330_enums(context: Context) -> str:
    """Ask for choices."""
    return f"Elicitation completed: {await context.ask('Please choose.', ENUMS)}"


async def _describe(args: dict[str, Any], _context: Context) -> str:
    return json.dumps(args)


DIALECT_TOOL = Tool.remote(
    Spec(
        name="json_schema_2020_12_tool",
        description="Take a schema of 2020-12.",
        input_schema=DIALECT,
        effect=READ,
    ),
    _describe,
)


def talk(arg1: str, arg2: str) -> str:
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


def embed(resourceUri: str) -> list[Prompt]:  # noqa: N803  the suite names it
    file = File(f"Content of {resourceUri}".encode(), "text/plain", "a.txt")
    return [Prompt((file, Text("Please process the embedded resource above.")))]


RESOURCES = [
    ServedResource("test://static-text", "This is the content of the static text resource."),
    ServedResource("test://static-binary", PNG, mime_type="image/png"),
    ServedResource(
        "test://template/{id}/data",
        lambda id: json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"}),  # noqa: A006
        mime_type="application/json",
    ),
]
PROMPTS = [
    ServedPrompt("test_simple_prompt", lambda: "This is a simple prompt for testing.", "Simple."),
    ServedPrompt(
        "test_prompt_with_arguments", talk, "With arguments.", {"arg1": ["paris", "park", "party"]}
    ),
    ServedPrompt("test_prompt_with_embedded_resource", embed, "With a file."),
    ServedPrompt(
        "test_prompt_with_image",
        lambda: [Prompt((Image(PNG), Text("Please analyze the image above.")))],
        "With an image.",
    ),
]


def main() -> None:
    tools = Toolset(
        test_simple_text,
        test_image_content,
        test_audio_content,
        test_embedded_resource,
        test_multiple_content_types,
        test_error_handling,
        test_tool_with_progress,
        test_elicitation,
        test_elicitation_sep1034_defaults,
        test_elicitation_sep1330_enums,
        DIALECT_TOOL,
    )
    executor = Executor(tools, policy=lambda _: Allow())
    if "bare" in sys.argv:
        executor, RESOURCES[:], PROMPTS[:] = Executor(Toolset()), [], []
    server = make_server(executor, resources=RESOURCES, prompts=PROMPTS, updates=ResourceUpdates())
    listening = bind()
    listening.listen()
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)  # noqa: T201
    anyio.run(serve_http, http_app(server, tokens=None), executor, listening)


if __name__ == "__main__":
    main()
