"""Answers the requests about resources, prompts and completion."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import mcp_types as types
from mcp.shared.exceptions import MCPError

from handrail import Text
from handrail.mcp._server.asking import Request
from handrail.mcp._server.resources import READ_RESOURCE, ServedPrompt, ServedResource
from handrail.mcp._server.updates import ResourceUpdates
from handrail.messages import Prompt, Reply

MAX_PROPOSED = 100
"""Values proposed for one argument: the protocol's limit."""
_NOT_FOUND = -32002
"""An older client's code for an unknown resource."""

CallTool: TypeAlias = Callable[
    [Request, types.CallToolRequestParams],
    Awaitable[types.CallToolResult | types.InputRequiredResult],
]


class Extras:
    """Resources and prompts, beside a server's tools.

    Args:
        call_tool: Runs the tool behind a request to read, by the rules.
        resources: Texts and files, in the order of the list.
        prompts: What a client's user can begin with.
        updates: Takes subscriptions to resources, if clients can have any.
    """

    def __init__(
        self,
        call_tool: CallTool,
        resources: Sequence[ServedResource],
        prompts: Sequence[ServedPrompt],
        updates: ResourceUpdates | None,
    ) -> None:
        self._updates = updates
        self._call_tool = call_tool
        self._resources = resources
        self._prompts = {one.name: one for one in prompts}

    def list_handlers(self) -> dict[str, Any]:
        """Return the handlers for what there is, by the names of the SDK."""
        handlers: dict[str, Any] = {}
        if self._resources:
            handlers |= {
                "on_list_resources": self.list_resources,
                "on_list_resource_templates": self.list_templates,
                "on_read_resource": self.read_resource,
            }
        if self._resources and self._updates is not None:
            handlers["on_subscribe_resource"] = self._updates.subscribe
            handlers["on_unsubscribe_resource"] = self._updates.unsubscribe
        if self._prompts:
            handlers |= {
                "on_list_prompts": self.list_prompts,
                "on_get_prompt": self.get_prompt,
                "on_completion": self.complete,
            }
        return handlers

    async def list_resources(self, _request: object, _params: object) -> types.ListResourcesResult:
        """Return what has one address."""
        found = [
            types.Resource(
                uri=one.uri,
                name=one.name or one.uri,
                description=one.description or None,
                mime_type=one.kind,
            )
            for one in self._resources
            if not one.is_template
        ]
        return types.ListResourcesResult(resources=found)

    async def list_templates(
        self, _request: object, _params: object
    ) -> types.ListResourceTemplatesResult:
        """Return what has many addresses."""
        found = [
            types.ResourceTemplate(
                uri_template=one.uri,
                name=one.name or one.uri,
                description=one.description or None,
                mime_type=one.kind,
            )
            for one in self._resources
            if one.is_template
        ]
        return types.ListResourceTemplatesResult(resource_templates=found)

    async def read_resource(
        self, request: Request, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        """Read one, by the rules: it is a call of a tool. Raises MCPError if that fails."""
        found = self._find(params.uri)
        if found is None:
            raise MCPError(_NOT_FOUND, "Resource not found", {"uri": params.uri})
        call = types.CallToolRequestParams(
            name=READ_RESOURCE,
            arguments={"uri": params.uri},
            input_responses=params.input_responses,
            request_state=params.request_state,
        )
        answer = await self._call_tool(request, call)
        if isinstance(answer, types.InputRequiredResult):
            return answer
        if answer.is_error:
            [said] = answer.content
            raise MCPError(types.INTERNAL_ERROR, getattr(said, "text", ""))
        contents = [_write_contents(params.uri, found.kind, part) for part in answer.content]
        return types.ReadResourceResult(contents=contents)

    def _find(self, uri: str) -> ServedResource | None:
        return next((one for one in self._resources if one.match(uri) is not None), None)

    async def list_prompts(self, _request: object, _params: object) -> types.ListPromptsResult:
        """Return the prompts, in their order."""
        found = [
            types.Prompt(
                name=one.name,
                description=one.description or None,
                arguments=[
                    types.PromptArgument(name=name, required=required)
                    for name, required in one.arguments
                ],
            )
            for one in self._prompts.values()
        ]
        return types.ListPromptsResult(prompts=found)

    async def get_prompt(
        self, _request: object, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """Return a prompt's messages. Raises MCPError for wrong arguments."""
        found = self._prompts.get(params.name)
        if found is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no prompt {params.name!r}.")
        try:
            messages = await found.get(params.arguments or {})
        except ValueError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        return types.GetPromptResult(
            description=found.description or None,
            messages=[written for one in messages for written in _write_messages(one)],
        )

    async def complete(
        self, _request: object, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        """Propose values for an argument, by what a user has typed."""
        values: Sequence[str] = ()
        if isinstance(params.ref, types.PromptReference):
            prompt = self._prompts.get(params.ref.name)
            values = () if prompt is None else prompt.choices.get(params.argument.name, ())
        found = [one for one in values if one.startswith(params.argument.value)]
        shown = found[:MAX_PROPOSED]
        completion = types.Completion(
            values=shown, total=len(found), has_more=len(found) > len(shown)
        )
        return types.CompleteResult(completion=completion)


def _write_contents(
    uri: str, kind: str, part: types.ContentBlock
) -> types.TextResourceContents | types.BlobResourceContents:
    if isinstance(part, types.TextContent):
        return types.TextResourceContents(uri=uri, mime_type=kind, text=part.text)
    data: Any = part
    blob: str = data.resource.blob if isinstance(part, types.EmbeddedResource) else data.data
    return types.BlobResourceContents(uri=uri, mime_type=kind, blob=blob)


def _write_messages(message: Prompt | Reply) -> list[types.PromptMessage]:
    """Return a message in the protocol's form: one for each part."""
    role: types.Role = "user" if isinstance(message, Prompt) else "assistant"
    parts: Any = message.parts
    return [types.PromptMessage(role=role, content=_write_part(part)) for part in parts]


def _write_part(part: Any) -> types.ContentBlock:
    if isinstance(part, Text):
        return types.TextContent(text=part.text)
    data = b64encode(part.data).decode()
    if part.media_type.startswith("image/"):
        return types.ImageContent(data=data, mime_type=part.media_type)
    resource = types.BlobResourceContents(
        uri=f"prompt:///{part.name}", mime_type=part.media_type, blob=data
    )
    return types.EmbeddedResource(resource=resource)
