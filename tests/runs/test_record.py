"""A run of a journal: its states, its summary, and answers to its calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import Result, Text
from handrail.agent import Agent, InvalidState, RunState
from handrail.messages import Prompt, Reply, ToolResults
from handrail.runs import (
    JournalError,
    JournalLine,
    RunHead,
    RunRecord,
    RunStore,
    open_runs,
    read_history,
)
from handrail.runs.journal import extend
from handrail.runs.lines import reply_line
from handrail.runs.states import count_shared, read_states, state_line
from handrail.testing import ScriptedModel
from replying import WAYS, Way, stream_lines
from runs.parked import writing

MESSAGES = st.lists(
    st.builds(Prompt.of, st.sampled_from(["a", "b"]))
    | st.builds(lambda text: Reply((Text(text),)), st.sampled_from(["x", "y"]))
    | st.just(ToolResults((Result("c", "r"),))),
    max_size=5,
).map(tuple)
STATES = st.lists(
    st.tuples(MESSAGES, st.integers(0, 3)).map(lambda pair: RunState(pair[0], turns=pair[1])),
    max_size=5,
)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[RunStore]:
    journal = open_runs(tmp_path / "journal.db")
    yield journal
    journal.close()


def sizes(journal: RunStore) -> list[int]:
    return [len(entry.body) for entry in journal.read("r", kinds=["state"])]


@given(STATES)
def test_any_states_are_read_as_they_were_written(states: list[RunState]) -> None:
    """Also if messages were replaced or removed in between."""
    before, lines = RunState(), list[JournalLine]()
    for state in states:
        lines.append(state_line(state, count_shared(before, state), 1.0))
        before = state
    _, entries = extend(RunHead("r"), lines, 1.0)

    assert list(read_states(entries)) == states


async def test_an_agent_saves_to_it(journal: RunStore) -> None:
    record = RunRecord(journal, "r")
    agent = Agent(ScriptedModel("One.", "Two."), [], save=record.save)
    first = await agent.run("Go")
    record.keep(first.state)
    second = await agent.resume(first.state.add_prompt("On"))
    record.keep(second.state)
    record.keep(second.state)  # nothing is new, and nothing is written

    again = RunRecord(journal, "r")
    assert again.state() == second.state
    assert [state for state in again.states() if state.turns][-1] == second.state
    assert again.states()[0] == RunState()
    assert (again.head.summary["turns"], again.head.summary["calls"]) == (2, 0)
    assert len(journal.runs()) == 1


def test_a_long_run_writes_as_much_at_its_end_as_at_its_start(journal: RunStore) -> None:
    record, state = RunRecord(journal, "r"), RunState()
    for turn in range(1, 60):
        said = (Reply((Text("x" * 100),)), ToolResults((Result("c", "y" * 100),)))
        state = state._replace(messages=(*state.messages, *said), turns=turn)
        record.keep(state)

    written = sizes(journal)
    assert max(written[5:]) <= written[1] + 20  # some digits more
    assert RunRecord(journal, "r").state() == state


@pytest.mark.parametrize(
    "body",
    [
        "{}",
        "",
        "[]",
        '{"kept":"1","state":{}}',
        '{"kept":5,"state":{}}',
        '{"kept":-1,"state":{}}',
        '{"kept":true,"state":{}}',
        '{"kept":0,"state":{}}',
        '{"kept":0,"state":',
    ],
)
def test_a_state_that_is_none_is_refused(journal: RunStore, body: str) -> None:
    journal.append("r", [JournalLine("state", body)])

    with pytest.raises(InvalidState):
        RunRecord(journal, "r").state()


def test_lines_are_written_in_the_order_in_which_they_were_put(journal: RunStore) -> None:
    record = RunRecord(journal, "r")
    record.put([{"event": "one"}])
    record.put([{"event": "two", "n": 2}])
    assert journal.head("r") is None
    record.keep(RunState(turns=1))
    record.flush()

    assert [entry.kind for entry in journal.read("r")] == ["one", "two", "state", "status"]
    assert [line["event"] for line in record.lines(after=2)] == ["status"]


def test_lines_that_could_not_be_written_are_written_later(
    journal: RunStore, tmp_path: Path
) -> None:
    journal.append("other", [JournalLine.of("a")])
    impatient = open_runs(journal.path, busy_seconds=0.01)
    record = RunRecord(impatient, "r")
    record.put([{"event": "one"}])
    with writing(journal.path), pytest.raises(JournalError):
        record.flush()
    record.note([{"event": "two"}])

    assert [entry.kind for entry in journal.read("r")] == ["one", "two"]
    impatient.close()


def test_the_latest_answer_to_a_call_is_used(journal: RunStore) -> None:
    record = RunRecord(journal, "r")
    record.note([{"event": "answer", "pending": one, "answer": "allow"} for one in ("p1", "p2")])
    record.note([{"event": "answer", "pending": "p1", "answer": "deny", "reason": "No."}])

    assert {name: given["answer"] for name, given in record.answers.items()} == {
        "p1": "deny",
        "p2": "allow",
    }
    assert record.answers["p1"]["reason"] == "No."


@pytest.mark.parametrize("way", WAYS)
def test_the_time_of_a_person_and_of_calls_is_not_the_time_of_the_model(way: Way) -> None:
    """A run that was resumed a day later: the model took two seconds."""
    call = {"call_id": "c", "turn": 1}
    lines = [
        {"event": "prompt", "at": 0.0, "text": "Go"},
        reply_line(1.0, Reply((), seconds=0.75), 1),
        {"event": "requested", "at": 0.25, **call},
        {"event": "started", "at": 0.5, **call},
        {"event": "finished", "at": 9.0, "kind": "pending", **call},
        {"event": "status", "at": 9.5, "status": "waiting"},
        {"event": "answer", "at": 80_000.0, "answer": "allow"},
        {"event": "finished", "at": 86_400.0, "kind": "", **call},
        reply_line(86_402.0, Reply((), seconds=2.0), 2),
        reply_line(86_403.0, Reply(()), 3),
    ]

    turns = read_history(stream_lines(way, lines))

    assert [(turn.at, turn.seconds) for turn in turns] == [
        (0.0, 0.0),
        (1.0, 0.75),
        (86_402.0, 2.0),
        (86_403.0, 0.0),
    ]
    assert [turn.number for turn in turns if turn.calls] == [1]
