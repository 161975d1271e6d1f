"""A process that is killed at each save: another process resumes the run to the same end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.stage import kinds, owed
from handrail.agent import load_state

WORKER = Path(__file__).with_name("worker.py")
GOOD = ["seen x", "put a", "full b", "put c", "seen y", "put d"]
EFFECTS = {"put a", "put c", "put d"}


def killed(folder: Path, **order: Any) -> list[dict[str, Any]]:
    ran = subprocess.run(  # noqa: S603
        [sys.executable, str(WORKER)],
        input=json.dumps({"folder": str(folder), **order}).encode(),
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    kills: list[dict[str, Any]] = json.loads(ran.stdout)
    return kills


# every pair of the three options, with four runs instead of eight; two of them outside of soak
@pytest.mark.parametrize(
    ("stream", "after", "asks"),
    [
        pytest.param(False, False, False, marks=pytest.mark.soak, id="whole-before"),
        pytest.param(False, True, True, id="whole-after-asked"),
        pytest.param(True, False, True, id="streamed-before-asked"),
        pytest.param(True, True, False, marks=pytest.mark.soak, id="streamed-after"),
    ],
)
def test_at_each_save(tmp_path: Path, *, stream: bool, after: bool, asks: bool) -> None:
    backend = "trio" if stream else "asyncio"
    *dead, alive = killed(tmp_path, stream=stream, after=after, asks=asks, backend=backend)

    # three replies and two turns of calls; a turn that needs approval is saved twice
    assert [one["signal"] for one in dead] == [signal.SIGKILL] * (7 if asks else 5)
    assert alive["signal"] == 0
    assert kinds(load_state(alive["end"]["state"]).messages) == GOOD
    for one in [*dead, alive]:
        if one["left"]:
            owed(load_state(one["left"]).transcript())
        end = load_state(one["end"]["state"])
        owed(end.transcript())
        assert (one["end"]["stop"], one["end"]["text"]) == ("answer", "done")
        for good, became in zip(GOOD, kinds(end.messages), strict=True):
            assert became in (good, "unknown", "denied")
            if good in EFFECTS:
                assert one["did"].count(good) <= 1
                assert became != good or one["did"].count(good) == 1
