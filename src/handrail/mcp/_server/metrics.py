"""Counts calls for a monitoring system, without their content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from handrail import Call, CheckedCall, Hook, Result

MAX_SERIES = 50_000
"""Combinations of server, tool and outcome. Further ones are counted without names."""


class _Ended(NamedTuple):
    """Calls with the same outcome."""

    server: str
    tool: str
    outcome: str


class CallMetrics:
    """Counts an executor's calls by server, tool and outcome, and its open approval requests.

    Pass ``hook`` to the executor, before its other hooks, and the object to ``make_server`` and
    ``with_metrics``. It stores server and tool names, but no arguments, results or users.
    """

    def __init__(self) -> None:
        self._ended = Counter[_Ended]()
        self.count_questions: Callable[[], int] = int
        """Returns how many calls wait for a person. A server sets it."""

    @property
    def hook(self) -> Hook:
        """A hook for an executor. List it first, to count what other hooks return."""
        return Hook(after=self._after)

    def _after(self, call: CheckedCall | Call, result: Result) -> Result:
        if result.pending is None:
            outcome = "ok" if result.failure is None else result.failure.kind.value
            found = _Ended(*_name(call), outcome)
            is_known = found in self._ended or len(self._ended) < MAX_SERIES
            self._ended[found if is_known else _Ended("", "", outcome)] += 1
        return result

    def render(self) -> Iterator[str]:
        """Yield the lines, in the Prometheus text format."""
        yield "# HELP handrail_calls_total Calls that have ended, by outcome."
        yield "# TYPE handrail_calls_total counter"
        for ended, count in sorted(self._ended.items()):
            names = ",".join(f'{key}="{_escape(text)}"' for key, text in ended._asdict().items())
            yield f"handrail_calls_total{{{names}}} {count}"
        yield "# HELP handrail_questions_open Calls that wait for a person."
        yield "# TYPE handrail_questions_open gauge"
        yield f"handrail_questions_open {self.count_questions()}"


def _name(call: CheckedCall | Call) -> tuple[str, str]:
    """Return the server and the tool, or neither for an invalid call from a client."""
    if isinstance(call, Call):
        return "", ""
    facts = call.spec.metadata
    if "mcp_tool" not in facts:
        return "", call.spec.name
    return str(facts["namespace"]), str(facts["mcp_tool"])


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
