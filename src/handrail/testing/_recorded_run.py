"""A run whose replies and results were recorded: replayed without a model and without tools."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Self, cast

from handrail import CheckedCall, FailureKind, HandrailError, Hook, Result
from handrail.messages import Model
from handrail.models import recorded
from handrail.testing._scripted import OffScript

_VERSION = 1
_NOT_RECORDED = "Not run: the recorded run has no result of this call."


class RecordedRun:
    """Records model replies and tool results, and replays them. Use it in tests.

    With a model, it records: the model is called and tools run. Without one, it replays: nothing is
    called, and nothing runs. As a context manager, it fails unless the run used exactly the
    recording. Give the agent both parts::

        with RecordedRun("recordings/refund") as run:
            result = Agent(run.model, tools, hooks=[run.hook]).run_sync("Refund order 7.")

    Args:
        folder: The recording's folder. Without a model, it must exist.
        model: The model to record.
    """

    def __init__(self, folder: str | os.PathLike[str], model: Model | None = None) -> None:
        self._file = Path(folder) / "results.json"
        self._records = model is not None
        self._results: list[dict[str, Any]] = [] if self._records else _load(self._file)
        self._unrecorded: list[str] = []
        replies = self._file.with_name("replies.json")
        if self._records:
            replies.unlink(missing_ok=True)
        self.model: Model = recorded(replies, model)
        """The model for the agent."""
        self.hook = Hook(around=self._around)
        """The hook for the agent. List it last."""

    async def _around(self, call: CheckedCall, run: Callable[[], Awaitable[Result]]) -> Result:
        args = json.dumps(call.args, sort_keys=True, default=_as_plain)
        if self._records:
            result = await run()
            self._results.append({"tool": call.name, "args": args, "result": result.to_json()})
            self._save()
            return result
        for at, kept in enumerate(self._results):
            if (kept["tool"], kept["args"]) == (call.name, args):
                del self._results[at]
                return Result.from_json(kept["result"])._replace(call_id=call.id)
        self._unrecorded.append(f"{call.name} {args}")
        return Result.fail(call.id, FailureKind.UNKNOWN, _NOT_RECORDED)

    def _save(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        saved = {"handrail_results": _VERSION, "results": self._results}
        self._file.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.check()

    def check(self) -> None:
        """Raise OffScript if the run made other calls than the recorded one."""
        if self._records:
            self._save()
            return
        missing = [f"not recorded: {call}" for call in self._unrecorded]
        unused = [f"not called: {kept['tool']} {kept['args']}" for kept in self._results]
        if missing or unused:
            raise OffScript("The run made other calls: " + "; ".join([*missing, *unused]))


def _as_plain(value: Any) -> Any:
    """Return a read-only mapping as a dict, and any other non-JSON value as its repr."""
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else repr(value)


def _load(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        raise HandrailError(
            f"There is no recorded run in {file.parent}. Pass a model to record one."
        )
    saved = json.loads(file.read_text(encoding="utf-8"))
    if saved.get("handrail_results") != _VERSION:
        raise HandrailError(f"{file} does not contain recorded results of this version.")
    results: list[dict[str, Any]] = saved["results"]
    return results
