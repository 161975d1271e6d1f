"""LlamaIndex: tools run by an executor."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from typing_extensions import Unpack

from handrail._support.lazy import name_extra

try:
    from llama_index.core.base.llms.types import DocumentBlock, ImageBlock, TextBlock
    from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput
    from llama_index.core.workflow import Context
except ModuleNotFoundError as error:
    raise name_extra(error, __name__, "llama-index") from error

from handrail import READ, Call, Executor, Image, Result, Spec, Text
from handrail.adapters._calls._given import Given, TurnFacts
from handrail.adapters._turns import Turns, offer_tools

CONTEXT = "handrail_context"
"""The argument in which LlamaIndex passes its context."""


def tools(executor: Executor, **given: Unpack[Given[Context]]) -> list[ExecutorTool]:
    """Return an executor's tools. They get the workflow's context as deps.

    They are async, and get no call id from LlamaIndex. Give the executor an approver. Without one,
    it denies calls needing approval. LlamaIndex lists tools once: use
    ``LongResults(reader="always")`` to let a model read long results.
    """
    adapter = _Adapter(executor, TurnFacts(executor, "`llama_index.tools`", given))
    return [ExecutorTool(name, spec, adapter) for name, spec in offer_tools(executor)]


class _Adapter:
    def __init__(self, executor: Executor, facts: TurnFacts[Context]) -> None:
        self._turns, self._facts = Turns(executor), facts

    async def run(self, call: Call, context: Any, *, early: bool) -> Result:
        """Run one call, together with its reply's others.

        LlamaIndex repeats steps when results come together after a wait, so reads start early.
        """
        given = self._facts.read(context, deps=context)
        run = None if context is None else context.store  # each step has its own context
        opened = self._turns.gather(run, given)
        return await opened.run(call, early=early)


class ExecutorTool(FunctionTool):
    """One of an executor's tools."""

    def __init__(self, name: str, spec: Spec, adapter: _Adapter) -> None:
        async def needs_context(handrail_context: Context, **_: Any) -> None: ...

        super().__init__(async_fn=needs_context, metadata=_Metadata(name, spec))
        self.requires_context, self.ctx_param_name = True, CONTEXT
        self._spec, self._adapter = spec, adapter

    def call(self, *_: Any, **__: Any) -> ToolOutput:
        raise NotImplementedError("This tool is async: use `acall`.")

    async def acall(self, *_: Any, **kwargs: Any) -> ToolOutput:
        context = kwargs.pop(CONTEXT, None)
        call, early = Call(self._spec.name, kwargs), self._spec.effect == READ
        result = await self._adapter.run(call, context, early=early)
        return ToolOutput(
            tool_name=self.metadata.get_name(),
            blocks=[_show_part(part) for part in result.content],
            raw_input=kwargs,
            raw_output=result.text,
            is_error=result.failure is not None,
        )


class _Metadata(ToolMetadata):
    """A tool's name, description and schema."""

    def __init__(self, name: str, spec: Spec) -> None:
        super().__init__(name=name, description=spec.description, fn_schema=None)
        self._schema = dict(spec.input_schema)

    def get_parameters_dict(self) -> dict[str, Any]:
        return self._schema


def _show_part(part: Any) -> TextBlock | ImageBlock | DocumentBlock:
    if isinstance(part, Text):
        return TextBlock(text=part.text)
    data = b64encode(part.data)
    if isinstance(part, Image):
        return ImageBlock(image=data, image_mimetype=part.media_type)
    return DocumentBlock(data=data, title=part.name, document_mimetype=part.media_type)
