"""Telemetry: what to pass to an executor, a model and an agent."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from handrail import HandrailError, Hook
from handrail.agent import AroundRun, NextRun, RunResult, RunState
from handrail.messages import Model
from handrail.telemetry._facts import ERROR_TYPE, Value

if TYPE_CHECKING:
    from handrail.telemetry._instruments import MeterProvider, TracerProvider
    from handrail.telemetry._measures import MeasuredWorker, Values

_PROVIDERS = {
    "anthropic": "anthropic",
    "gemini": "gcp.gemini",
    "openai": "openai",
    "openai-chat": "openai",
}
"""The conventions' names, by model name prefix."""


class Telemetry:
    """Spans and metrics for calls, models and agents, by OpenTelemetry's GenAI conventions.

    Raises HandrailError if OpenTelemetry's API is not installed.

    Args:
        content: Whether spans have arguments, results, messages and what calls touch. All of them
            can contain secrets.
        tracer_provider: Makes the spans. Default: the global one.
        meter_provider: Makes the metrics. Default: the global one.
    """

    def __init__(
        self,
        *,
        content: bool = False,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        try:
            from handrail.telemetry._calls import CallSpans
            from handrail.telemetry._instruments import Instruments
        except ImportError as error:
            raise HandrailError(
                "Telemetry needs OpenTelemetry: pip install 'handrail[otel]'"
            ) from error
        self._content = content
        self._instruments = Instruments(tracer_provider, meter_provider)
        self._calls = CallSpans(self._instruments, content=content)

    @property
    def hook(self) -> Hook:
        """A hook for an executor: a span ``execute_tool NAME`` for each call.

        It lasts from the request to the result, and is current inside the tool. List the hook
        first, to have other hooks' spans inside.
        """
        return self._calls.hook

    def model(self, model: Model | str, *, provider: str = "") -> Model:
        """Return a model with a span ``chat NAME`` for each request.

        Args:
            model: The model, or its provider and name.
            provider: The provider, as the conventions name it. Default: from the model's name.
        """
        from handrail.telemetry._models import TracedModel

        if isinstance(model, str):
            from handrail.models import named  # loads no SDK but the model's

            provider = provider or _PROVIDERS[model.partition(":")[0]]
            model = named(model)
        content, instruments = self._content, self._instruments
        return TracedModel(model, provider or "unknown", instruments, content=content)

    def worker(self, worker: MeasuredWorker) -> None:
        """Report a durable runs worker's measurements whenever metrics are exported."""

        def read(name: str) -> Values:
            return [value for one in worker.measures() if one.name == name for value in one.values]

        for measure in worker.measures():
            self._instruments.observe(measure, read)

    def agent(self, name: str, *, description: str = "") -> AroundRun:
        """Return a function for ``Agent(around=...)``: a span ``invoke_agent NAME`` for each run.

        The run's requests and calls are inside, including a sub-agent's, in its own span.
        """
        from handrail.telemetry._instruments import as_current, end
        from handrail.telemetry._models import describe_error, in_conversation

        common: dict[str, Value] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": "handrail",
            "gen_ai.agent.name": name,
        }

        async def around(state: RunState, run: NextRun) -> RunResult[Any]:
            known: dict[str, Value] = {**common, "gen_ai.conversation.id": state.run_id}
            if description:
                known["gen_ai.agent.description"] = description
            span = self._instruments.start(f"invoke_agent {name}", known)
            measured, began = dict(common), perf_counter()
            try:
                with as_current(span), in_conversation(state.run_id):
                    result = await run()
                known |= _show_result(state, result)
            except BaseException as error:
                known[ERROR_TYPE] = measured[ERROR_TYPE] = describe_error(error)
                raise
            else:
                return result
            finally:
                self._instruments.record_seconds(perf_counter() - began, measured)
                end(span, known)

        return around


def _show_result(before: RunState, result: RunResult[Any]) -> dict[str, Value]:
    now, then = result.state, before
    return {
        "gen_ai.usage.input_tokens": now.usage.input_tokens - then.usage.input_tokens,
        "gen_ai.usage.output_tokens": now.usage.output_tokens - then.usage.output_tokens,
        "handrail.run.stop_reason": result.stop_reason,
        "handrail.run.turns": now.turns - then.turns,
        "handrail.run.calls": now.calls - then.calls,
    }
