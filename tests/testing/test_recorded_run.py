"""A recorded run: replayed without its model and without its tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from handrail import READ, Call, HandrailError, tool
from handrail.agent import Agent
from handrail.messages import ModelError
from handrail.testing import OffScript, RecordedRun, ScriptedModel

ran: list[str] = []


@tool(effect=READ)
def look(path: str) -> str:
    """Look at a file."""
    ran.append(path)
    if path == "none":
        raise ValueError("no such file")
    return f"text of {path}"


STEPS = [
    [Call("look", {"path": "a"}, "c1"), Call("look", {"path": "none"}, "c2")],
    [Call("look", {"path": "a"}, "c3")],
    "Done.",
]


def go(run: RecordedRun, prompt: str = "Go") -> tuple[object, ...]:
    result = Agent(run.model, [look], hooks=[run.hook]).run_sync(prompt)
    return result.output, result.state.messages


def record(folder: Path) -> tuple[object, ...]:
    with RecordedRun(folder, ScriptedModel(*STEPS)) as run:
        return go(run)


def test_a_run_is_replayed_as_it_was_recorded(tmp_path: Path) -> None:
    ran.clear()
    first = record(tmp_path / "r")
    assert sorted(ran) == ["a", "a", "none"]  # calls of one reply run side by side
    ran.clear()
    with RecordedRun(tmp_path / "r") as run:
        again = go(run)

    assert (again, ran) == (first, [])
    assert record(tmp_path / "r") == first  # a new recording replaces the old one


def test_another_request_is_shown(tmp_path: Path) -> None:
    record(tmp_path)

    with pytest.raises(ModelError, match='"Stop", and "Go" was recorded'):
        go(RecordedRun(tmp_path), "Stop")


def test_calls_that_were_not_recorded_and_results_that_are_not_used_are_named(
    tmp_path: Path,
) -> None:
    record(tmp_path)
    file = tmp_path / "results.json"
    file.write_text(file.read_text(encoding="utf-8").replace("none", "b"), encoding="utf-8")
    run = RecordedRun(tmp_path)
    with pytest.raises(ModelError):  # the model gets another result
        go(run)

    told = (
        'The run made other calls: not recorded: look {"path": "none"}; '
        'not called: look {"path": "b"}; not called: look {"path": "a"}'
    )
    with pytest.raises(OffScript) as error:
        run.check()
    assert str(error.value) == told


def test_an_error_in_a_test_is_not_replaced(tmp_path: Path) -> None:
    record(tmp_path)

    with pytest.raises(KeyError), RecordedRun(tmp_path):
        raise KeyError


def test_a_run_without_calls_is_recorded(tmp_path: Path) -> None:
    with RecordedRun(tmp_path, ScriptedModel("Hello.")) as run:
        go(run)
    with RecordedRun(tmp_path) as run:
        assert go(run)[0] == "Hello."


def test_a_recording_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HandrailError, match=r"There is no recorded run in .*Pass a model"):
        RecordedRun(tmp_path)
    record(tmp_path)
    (tmp_path / "results.json").write_text(json.dumps({"handrail_results": 9}), encoding="utf-8")
    with pytest.raises(HandrailError, match="does not contain recorded results of this version"):
        RecordedRun(tmp_path)


TEST = '''
from handrail import READ, Call, tool
from handrail.agent import Agent
from handrail.testing import ScriptedModel

@tool(effect=READ)
def look(path: str) -> str:
    """Look at a file."""
    with open("ran.txt", "a", encoding="utf-8") as file:
        file.write(path)
    return "text"

def test_it(recorded_run):
    model = ScriptedModel(Call("look", {"path": "a"}, "c1"), "Done.")
    run = recorded_run(model)
    assert Agent(run.model, [look], hooks=[run.hook]).run_sync("Go").output == "Done."
    assert len(model.requests) in (0, 2)
'''
pytest_plugins = ["pytester"]


def test_a_fixture_records_on_request_and_replays(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["handrail.testing.fixtures"]')
    pytester.makepyfile(test_one=TEST)
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:anyio")

    before = pytester.runpytest_inprocess(*options)
    recorded = pytester.runpytest_inprocess(*options, "--record-runs")
    replayed = pytester.runpytest_inprocess(*options)

    before.assert_outcomes(failed=1)
    before.stdout.fnmatch_lines(["*There is no recorded run in *recordings/test_one.test_it*"])
    recorded.assert_outcomes(passed=1)
    replayed.assert_outcomes(passed=1)
    assert (pytester.path / "ran.txt").read_text(encoding="utf-8") == "a"
