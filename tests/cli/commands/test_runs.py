"""`handrail runs list | show | stats | export`, on runs that are written down."""

from __future__ import annotations

import json
import os
import re
import stat
from typing import Any

import pytest
from inline_snapshot import snapshot

from cli_harness import Handrail, Ran, Schemas
from cli_runs import JournalRun, change_journal, edit_journal, journal_run, standing_of
from cli_scripts import scripted
from handrail import WRITE, Call, Executor, File, Result, Text, Toolset, tool, writes_file
from handrail.agent import RunState, dump_state, load_state
from handrail.approvals import defer
from handrail.messages import Prompt, Reasoning, Reply, ToolResults, TruncatedCall, Usage
from handrail.permissions import FileChange
from handrail.policy import Rulebook
from replying import WAYS, Way, stream_lines

FIRST, SECOND, THIRD = "20261115-112233-aaaaaa", "20261116-080000-bbbbbb", "20261117-235959-cccccc"
RULE = {"rule": "keys-stay", "file": "/etc/handrail/rules.toml", "line": 4}
JOURNAL: list[dict[str, Any]] = [
    {
        "at": 100.0,
        "event": "prompt",
        "text": "Tidy the notes, and say \x1b[31mwhat\x1b[0m you did.",
    },
    {
        "at": 102.5,
        "event": "reply",
        "turn": 1,
        "seconds": 2.5,
        "model": "m-1",
        "stop": "calls",
        "usage": {"input_tokens": 1500, "output_tokens": 60, "cached_tokens": 1000},
        "calls": ["c1", "c2", "c3"],
        "text": "I look first.",
    },
    {
        "at": 102.5,
        "event": "requested",
        "turn": 1,
        "call_id": "c1",
        "tool": "read",
        "args": {"path": "a.md"},
    },
    {
        "at": 102.5,
        "event": "decided",
        "turn": 1,
        "call_id": "c1",
        "decision": "allow",
        "origin": None,
    },
    {"at": 102.5, "event": "started", "turn": 1, "call_id": "c1", "attempt": 1},
    {
        "at": 102.6,
        "event": "requested",
        "turn": 1,
        "call_id": "c2",
        "tool": "edit",
        "args": {"path": "a.md"},
    },
    {
        "at": 102.6,
        "event": "decided",
        "turn": 1,
        "call_id": "c2",
        "decision": "ask",
        "origin": RULE,
    },
    {"at": 102.6, "event": "waiting", "turn": 1, "call_id": "c2", "on": ["c1"]},
    {
        "at": 102.6,
        "event": "asked",
        "turn": 1,
        "call_id": "c2",
        "pending": "p1",
        "question": "May edit write file:a.md?",
        "origin": RULE,
    },
    {
        "at": 102.7,
        "event": "requested",
        "turn": 1,
        "call_id": "c3",
        "tool": "read",
        "args": '{"path": "k',
    },
    {
        "at": 102.7,
        "event": "finished",
        "turn": 1,
        "call_id": "c3",
        "kind": "bad_args",
        "pending": "",
        "chars": 9,
        "text": "cut short",
    },
    {
        "at": 103.5,
        "event": "finished",
        "turn": 1,
        "call_id": "c1",
        "kind": "",
        "pending": "",
        "chars": 12,
        "text": "secret notes",
    },
    {
        "at": 105.1,
        "event": "answered",
        "turn": 1,
        "call_id": "c2",
        "pending": "p1",
        "answer": "deny",
        "reason": "Not now.",
    },
    {
        "at": 105.1,
        "event": "finished",
        "turn": 1,
        "call_id": "c2",
        "kind": "denied",
        "pending": "",
        "chars": 8,
        "text": "Not now.",
    },
]
READ = Call("read", {"path": "a.md"}, "c1")
STATE = RunState(
    messages=(
        Prompt.of("Tidy the notes."),
        Reply(
            (Text("I look first."), READ),
            "calls",
            Usage(input_tokens=1500, output_tokens=60, cached_tokens=1000),
        ),
        ToolResults((Result("c1", "secret notes"),)),
    ),
    usage=Usage(input_tokens=1500, output_tokens=60, cached_tokens=1000),
    turns=1,
    calls=3,
)


DONE = {"status": "done", "reason": "answer"}
RUNS = {"status": "running", "reason": ""}
WAITS = {"status": "waiting", "reason": ""}
in_each_way = pytest.mark.parametrize("way", WAYS)


def keep(handrail: Handrail, id_: str, way: Way = "whole", **about: Any) -> JournalRun:
    """A run as it is on disk."""
    saved = journal_run(handrail, id_)
    usual = {"workspace": str(handrail.workspace), "prompt": "Tidy the\nnotes.", "command": "run"}
    began = f"{id_[:4]}-{id_[4:6]}-{id_[6:8]}T{id_[9:11]}:{id_[11:13]}:{id_[13:15]}+00:00"
    saved.change_about(**{"began": began, **usual, **DONE, "why": "", "ended": began, **about})
    saved.write_state(STATE)
    saved.add_to_journal(stream_lines(way, JOURNAL))
    return saved


def test_runs_of_one_second_are_listed_the_newest_first_too(handrail: Handrail) -> None:
    model = scripted(handrail, '"Done."')
    for number in range(6):
        handrail("run", *model, f"Task {number}.")

    listed = [run["prompt"] for run in handrail("runs", "list", "--json").json["runs"]]
    assert listed == [f"Task {number}." for number in reversed(range(6))]


def test_runs_are_listed_the_newest_first(handrail: Handrail, schema: Schemas) -> None:
    keep(handrail, FIRST)
    keep(handrail, SECOND, workspace="/elsewhere", **WAITS, prompt="\x1b[2Jrm", why="waits")
    keep(handrail, THIRD, **RUNS)

    assert handrail("runs", "list") == snapshot(
        Ran(
            exit=0,
            out="""\
run                     started      status              turns  calls  prompt
20261117-235959-cccccc  11-17 23:59  done: interrupted   1      3      Tidy the notes.
20261116-080000-bbbbbb  11-16 08:00  waits for approval  1      3      /elsewhere: \\u{1B}[2Jrm
20261115-112233-aaaaaa  11-15 11:22  done                1      3      Tidy the notes.
""",
            err="",
        )
    )
    assert handrail("runs", "list", "--limit", "1") == snapshot(
        Ran(
            exit=0,
            out="""\
run                     started      status             turns  calls  prompt
20261117-235959-cccccc  11-17 23:59  done: interrupted  1      3      Tidy the notes.
""",
            err="older runs are not shown; list more with `--limit 10`\n",
        )
    )
    assert handrail("runs", "list", "--here").out.splitlines() == snapshot(
        [
            "run                     started      status             turns  calls  prompt",
            "20261117-235959-cccccc  11-17 23:59  done: interrupted  1      3      Tidy the notes.",
            "20261115-112233-aaaaaa  11-15 11:22  done               1      3      Tidy the notes.",
        ]
    )
    told = schema("runs-list", handrail("runs", "list", "--json").json)
    assert [(one["id"], *standing_of(one), one["turns"]) for one in told["runs"]] == snapshot(
        [
            ("20261117-235959-cccccc", "done", "interrupted", 1),
            ("20261116-080000-bbbbbb", "waiting", "", 1),
            ("20261115-112233-aaaaaa", "done", "answer", 1),
        ]
    )
    lines = handrail("runs", "list", "-o", "jsonl").lines
    assert [schema("runs-list", one, part="line") for one in lines] == told["runs"]


def test_runs_are_listed_by_status_and_by_why_they_ended(handrail: Handrail) -> None:
    keep(handrail, FIRST, reason="limit")
    keep(handrail, SECOND, **WAITS)
    keep(handrail, THIRD, **RUNS)

    def found(*options: str) -> list[str]:
        ran = handrail("runs", "list", "--json", *options)
        return [one["id"] for one in ran.json["runs"]]

    assert found("--status", "waiting") == [SECOND]
    assert found("--status", "done") == [THIRD, FIRST]  # no process works on the third
    assert found("--status", "done", "--limit", "1") == [THIRD]
    assert found("--reason", "interrupted") == [THIRD]
    assert found("--status", "done", "--reason", "limit", "--here") == [FIRST]
    assert found("--status", "running") == found("--status", "waiting", "--reason", "limit") == []
    with journal_run(handrail, THIRD).hold():
        assert (found("--status", "running"), found("--status", "done")) == ([THIRD], [FIRST])
    refused = [
        handrail("runs", "list", *one) for one in (("--status", "pending"), ("--reason", "x"))
    ]
    assert [ran.exit for ran in refused] == [2, 2]


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"why": ""}, "done"),
        (
            {"reason": "limit", "why": "reached the limit of 3 turns"},
            "done: reached the limit of 3 turns",
        ),
        ({"reason": "refused", "why": ""}, "done: refused"),
        ({"reason": "refused", "why": "it is secret"}, "done: refused: it is secret"),
        ({"status": "failed", "reason": "error", "why": "no network"}, "failed: no network"),
        (
            {"status": "cancelled", "reason": "", "why": "cancelled by the user"},
            "cancelled by the user",
        ),
        ({"status": "waiting", "reason": "", "why": ""}, "waits for approval"),
        ({"status": "queued", "reason": "", "why": ""}, "queued"),
    ],
)
def test_a_run_says_where_it_stands(handrail: Handrail, about: dict[str, str], said: str) -> None:
    keep(handrail, FIRST, **about)

    assert handrail("runs", "show").out.splitlines()[1] == f"status     {said}"


def test_without_runs_there_is_nothing_to_list(handrail: Handrail, schema: Schemas) -> None:
    assert handrail("runs", "list") == Ran(0, "no runs\n", "")
    assert schema("runs-list", handrail("runs", "list", "--json").json) == {"runs": []}


def test_one_run_that_cannot_be_read_hides_no_other(handrail: Handrail) -> None:
    first, second, third = "20260101-000000-aaaaaa", "20260102-000000-aaaaaa", FIRST
    keep(handrail, first)
    keep(handrail, second, prompt=5)
    keep(handrail, third, status=[])

    said = (
        f"cannot read run {third}: status must be one of queued, running, waiting, "
        "done, failed, cancelled\n"
        f"cannot read run {second}: prompt must be a string\n"
    )
    for more in ((), ("--here",)):
        ran = handrail("runs", "list", "--json", *more)
        assert ([one["id"] for one in ran.json["runs"]], ran.exit, ran.err) == ([first], 0, said)
    ran = handrail("runs", "stats", "--here", "--json")
    assert (ran.json["runs"], ran.exit, ran.err) == (1, 0, said)
    assert handrail("runs", "stats", "--json").json["runs"] == 3


def test_a_pipe_in_place_of_a_journal_is_not_waited_for(handrail: Handrail) -> None:
    (handrail.state / "runs").mkdir(parents=True)
    os.mkfifo(handrail.state / "runs" / "journal.db")

    for command in (["stats"], ["list"], ["show", "last"]):
        ran = handrail("runs", *command, "--json")
        assert (ran.exit, ran.error["code"]) == (1, "failed")
        assert ran.error["message"].endswith("must be a regular file that only you can write to.")


def near(handrail: Handrail, text: str) -> str:
    return text.replace(str(handrail.workspace), "WS")


@in_each_way
def test_a_run_is_shown_as_a_timeline(handrail: Handrail, way: Way) -> None:
    keep(handrail, FIRST, way)

    ran = handrail("runs", "show", "last")

    assert (ran.exit, ran.err) == (0, "")
    assert near(handrail, ran.out) == snapshot("""\
run 20261115-112233-aaaaaa
status     done
prompt     Tidy the notes.
workspace  WS

prompt  +0 ms
  Tidy the notes, and say \\u{1B}[31mwhat\\u{1B}[0m you did.
turn 1  +2.50 s  m-1  model took 2.50 s  1,500 tokens in, 60 out
  I look first.
  #1   read            ████████████                         1.00 s  ok
       path="a.md"
       allowed by the policy
  #2   edit             ░░░░░░░░░░░▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒    2.50 s  denied
       path="a.md"
       asked by keys-stay (/etc/handrail/rules.toml:4): May edit write …
       denied after 2.50 s
       waited 900 ms for #1 read
       denied: Not now.
  #3   read              ─                                    0 ms  bad_args
       {"path": "k
       bad_args: cut short

█ running  ░ waiting for a call or slot  ▒ for approval  ┄ for a retry  ─ other
""")
    wide = handrail("runs", "show", "2026", env={"COLUMNS": "120"})
    assert near(handrail, wide.out) == snapshot("""\
run 20261115-112233-aaaaaa
status     done
prompt     Tidy the notes.
workspace  WS

prompt  +0 ms
  Tidy the notes, and say \\u{1B}[31mwhat\\u{1B}[0m you did.
turn 1  +2.50 s  m-1  model took 2.50 s  1,500 tokens in, 60 out
  I look first.
  #1   read            ████████████████████████████                                                 1.00 s  ok
       path="a.md"
       allowed by the policy
  #2   edit              ░░░░░░░░░░░░░░░░░░░░░░░░░░▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒    2.50 s  denied
       path="a.md"
       asked by keys-stay (/etc/handrail/rules.toml:4): May edit write file:a.md?
       denied after 2.50 s
       waited 900 ms for #1 read
       denied: Not now.
  #3   read                 ─                                                                         0 ms  bad_args
       {"path": "k
       bad_args: cut short

█ running  ░ waiting for a call or slot  ▒ for approval  ┄ for a retry  ─ other
""")


@in_each_way
def test_in_full_it_has_the_whole_of_every_text(handrail: Handrail, way: Way) -> None:
    keep(handrail, FIRST, way)

    assert near(handrail, handrail("runs", "show", FIRST, "--full").out) == snapshot("""\
run 20261115-112233-aaaaaa
status     done
prompt     Tidy the notes.
workspace  WS

prompt  +0 ms
  Tidy the notes, and say \\u{1B}[31mwhat\\u{1B}[0m you did.
turn 1  +2.50 s  m-1  model took 2.50 s  1,500 tokens in, 60 out
  I look first.
  #1   read            ████████████                         1.00 s  ok
       id c1
       path="a.md"
       allowed by the policy
       secret notes
  #2   edit             ░░░░░░░░░░░▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒    2.50 s  denied
       id c2
       path="a.md"
       asked by keys-stay (/etc/handrail/rules.toml:4): May edit write
       file:a.md?
       denied after 2.50 s
       waited 900 ms for #1 read
       denied: Not now.
  #3   read              ─                                    0 ms  bad_args
       id c3
       {"path": "k
       bad_args: cut short

█ running  ░ waiting for a call or slot  ▒ for approval  ┄ for a retry  ─ other
""")


def test_colours_are_there_when_they_are_asked_for(handrail: Handrail) -> None:
    keep(handrail, FIRST)
    plain = handrail("runs", "show", "last").out
    colored = handrail("runs", "show", "last", "--color", "always").out

    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain
    assert [line for line in colored.splitlines() if "#1" in line] == snapshot(
        [
            "  #1   read            \x1b[0m\x1b[36m████████████\x1b[0m                         1.00 s  \x1b[0m\x1b[32mok\x1b[0m",
            "       \x1b[0m\x1b[33mwaited 900 ms for #1 read\x1b[0m",
        ]
    )


def test_where_letters_cannot_be_written_bars_are_ascii(handrail: Handrail) -> None:
    keep(handrail, FIRST, prompt="Räum auf…")

    ran = handrail.process("runs", "show", "last", env={"PYTHONIOENCODING": "ascii:strict"})

    assert (ran.exit, ran.out.isascii()) == (0, True)
    assert near(handrail, ran.out).splitlines()[:8] == snapshot(
        [
            "run 20261115-112233-aaaaaa",
            "status     done",
            "prompt     R\\xe4um auf\\u2026",
            "workspace  WS",
            "",
            "prompt  +0 ms",
            "  Tidy the notes, and say \\u{1B}[31mwhat\\u{1B}[0m you did.",
            "turn 1  +2.50 s  m-1  model took 2.50 s  1,500 tokens in, 60 out",
        ]
    )


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (
            WAITS,
            (
                f"calls are waiting for approval: `handrail runs approve {FIRST}` or "
                f"`handrail runs deny {FIRST}`, then `handrail runs resume {FIRST}`\n"
            ),
        ),
        (RUNS, f"resume it with `handrail runs resume {FIRST}`\n"),
        ({"reason": "limit"}, f"resume it with `handrail runs resume {FIRST}`\n"),
        ({"status": "cancelled", "reason": ""}, f"resume it with `handrail runs resume {FIRST}`\n"),
        ({"status": "failed", "reason": "error"}, ""),
    ],
)
def test_it_says_how_to_go_on(handrail: Handrail, about: dict[str, str], said: str) -> None:
    keep(handrail, FIRST, **about)

    assert handrail("runs", "show", "last").err == said
    assert handrail("runs", "show") == handrail("runs", "show", "last")


@in_each_way
def test_a_timeline_for_programs(handrail: Handrail, way: Way, schema: Schemas) -> None:
    keep(handrail, FIRST, way)

    told = schema("runs-show", handrail("runs", "show", "last", "--json").json)

    assert [call["outcome"] for turn in told["turns"] for call in turn["calls"]] == [
        "ok",
        "denied",
        "bad_args",
    ]
    assert told["turns"][1]["calls"][1] == snapshot(
        {
            "number": 2,
            "id": "c2",
            "began": 102.6,
            "ended": 105.1,
            "tool": "edit",
            "args": {"path": "a.md"},
            "kind": "denied",
            "text": "Not now.",
            "principal": "",
            "turn": 1,
            "moments": [
                {
                    "what": "asked",
                    "word": "",
                    "text": "May edit write file:a.md?",
                    "origin": "keys-stay (/etc/handrail/rules.toml:4)",
                    "seconds": 0.0,
                    "diff": "",
                },
                {
                    "what": "answered",
                    "word": "deny",
                    "text": "Not now.",
                    "origin": "",
                    "seconds": 2.5,
                    "diff": "",
                },
            ],
            "spans": [
                {
                    "phase": "waiting",
                    "start": 102.6,
                    "end": 103.5,
                    "why": ["c1"],
                    "closed": True,
                    "reason": "",
                    "what": "",
                },
                {
                    "phase": "approval",
                    "start": 102.6,
                    "end": 105.1,
                    "why": [],
                    "closed": True,
                    "reason": "",
                    "what": "",
                },
            ],
            "outcome": "denied",
        }
    )
    lines = handrail("runs", "show", "last", "-o", "jsonl").lines
    assert [schema("runs-show", one, part="line") for one in lines] == told["turns"]


def test_what_is_left_of_a_broken_run_is_shown(handrail: Handrail, schema: Schemas) -> None:
    keep(handrail, FIRST)
    change_journal(handrail, "UPDATE handrail_summary SET about = '['")
    edit_journal(handrail, lambda _number, kind, body: "[" if kind == "state" else body)
    edit_journal(handrail, lambda number, _kind, body: None if number > 11 else body)

    assert near(handrail, handrail("runs", "show", "last").out) == snapshot("""\
run 20261115-112233-aaaaaa
status     failed
prompt
workspace

prompt  +0 ms
  Tidy the notes, and say \\u{1B}[31mwhat\\u{1B}[0m you did.
turn 1  +2.50 s  m-1  model took 2.50 s  1,500 tokens in, 60 out
  I look first.
  #1   read            █████████████████████████████████    100 ms  no result
       path="a.md"
       allowed by the policy
  #2   edit                                            ░      0 ms  no result
       path="a.md"
       waiting 0 ms for #1 read

█ running  ░ waiting for a call or slot  ▒ for approval  ┄ for a retry  ─ other
""")
    schema("runs-show", handrail("runs", "show", "last", "--json").json)
    document = schema("runs-export", handrail("runs", "export", "last").json)
    assert (document["state"], len(document["journal"])) == snapshot((None, 8))


def test_there_is_no_such_run(handrail: Handrail, schema: Schemas) -> None:
    ran = handrail("runs", "show", "nosuch", "--json")

    assert (ran.exit, ran.out, ran.error["code"]) == (2, "", "no_run")
    assert handrail("runs", "export", "last").exit == handrail("runs", "stats", "x").exit == 2


@in_each_way
def test_calls_times_and_tokens_are_counted(handrail: Handrail, way: Way, schema: Schemas) -> None:
    keep(handrail, FIRST, way)
    keep(handrail, SECOND, way, workspace="/elsewhere")
    keep(handrail, THIRD, way).add_to_journal(
        [{"at": 200.0, "event": "requested", "call_id": "x", "tool": "\x1b[1mbash\nx", "args": {}}]
    )

    assert handrail("runs", "stats") == snapshot(
        Ran(
            exit=0,
            out="""\
3 runs, 3 turns, model time 7.50 s
tokens: 4,500 input (3,000 cached), 180 output

tool             calls  failed  denied  median  p95     waited  approval  outcomes
\\u{1B}[1mbash x  1      0       0       -       -       0 ms    0 ms      1 no result
edit             3      0       3       -       -       2.70 s  7.50 s    3 denied
read             6      3       0       1.00 s  1.00 s  0 ms    0 ms      3 bad_args, 3 ok
""",
            err="",
        )
    )
    assert handrail("runs", "stats", FIRST, "--here").out.splitlines()[0] == snapshot(
        "1 run, 1 turn, model time 2.50 s"
    )
    assert handrail("runs", "stats", SECOND, "--here").out == snapshot("""\
0 runs, 0 turns, model time 0 ms
tokens: 0 input (0 cached), 0 output
""")
    assert schema("runs-stats", handrail("runs", "stats", FIRST, "--json").json) == snapshot(
        {
            "runs": 1,
            "turns": 1,
            "model_seconds": 2.5,
            "tokens": {"input_tokens": 1500, "output_tokens": 60, "cached_tokens": 1000},
            "tools": [
                {
                    "tool": "edit",
                    "calls": 1,
                    "failed": 0,
                    "denied": 1,
                    "outcomes": {"denied": 1},
                    "median": None,
                    "p95": None,
                    "waited": 0.9000000000000057,
                    "asked": 2.5,
                },
                {
                    "tool": "read",
                    "calls": 2,
                    "failed": 1,
                    "denied": 0,
                    "outcomes": {"bad_args": 1, "ok": 1},
                    "median": 1.0,
                    "p95": 1.0,
                    "waited": 0,
                    "asked": 0,
                },
            ],
        }
    )


def test_the_slowest_of_a_hundred_is_no_part_of_the_95th_percentile(handrail: Handrail) -> None:
    saved = keep(handrail, FIRST)
    saved.add_to_journal(
        {"at": at, "event": event, "call_id": f"n{number}", "tool": "many", "kind": ""}
        for number in range(1, 101)
        for event, at in (("requested", 0.0), ("started", 0.0), ("finished", float(number)))
    )

    tools = handrail("runs", "stats", "--json").json["tools"]
    many = next(one for one in tools if one["tool"] == "many")

    assert (many["calls"], many["median"], many["p95"]) == (100, 50.5, 95.0)


def test_a_run_is_exported_and_can_be_loaded_again(handrail: Handrail, schema: Schemas) -> None:
    keep(handrail, FIRST)

    document = schema("runs-export", handrail("runs", "export", "last").json)

    assert load_state(json.dumps(document["state"])) == STATE
    assert document["journal"] == JOURNAL
    assert (document["about"]["id"], document["redacted"]) == (FIRST, False)
    assert standing_of(document["about"]) == ("done", "answer")
    assert handrail("runs", "export", "last", "-o", "jsonl").lines == [document]


def test_a_redacted_run_has_no_text_and_the_same_shape(handrail: Handrail, schema: Schemas) -> None:
    keep(handrail, FIRST, settings={"model": "m-1", "system": "be secret"})

    ran = handrail("runs", "export", "last", "--redact")

    document = schema("runs-export", ran.json)
    assert standing_of(document["about"]) == ("done", "answer")
    for text in ("secret", "Tidy", "a.md", "Not now", "I look", "cut short", str(handrail.folder)):
        assert text not in ran.out
        assert text in handrail("runs", "export", "last").out
    assert document["state"]["messages"][1] == snapshot(
        {
            "reply": [
                {
                    "text": {
                        "sha256": "273e6f6c448a9371370978e2838d66899df50e0c75fe696f3f661887c001a277",
                        "chars": 13,
                    }
                },
                {
                    "call": "read",
                    "args": {
                        "sha256": "9d0646c3a9c4fe5ab0996c396a2867f9f84b696bc6f168c95af2d1db45f829b1",
                        "chars": 16,
                    },
                    "id": "c1",
                },
            ],
            "stop": "calls",
            "usage": [1500, 60, 1000, 0, 0],
            "model": "",
        }
    )
    assert document["journal"][2:9] == snapshot(
        [
            {
                "at": 102.5,
                "turn": 1,
                "event": "requested",
                "call_id": "c1",
                "tool": "read",
                "args": {
                    "sha256": "9d0646c3a9c4fe5ab0996c396a2867f9f84b696bc6f168c95af2d1db45f829b1",
                    "chars": 16,
                },
            },
            {
                "at": 102.5,
                "turn": 1,
                "event": "decided",
                "call_id": "c1",
                "decision": "allow",
                "origin": None,
            },
            {"at": 102.5, "turn": 1, "event": "started", "call_id": "c1", "attempt": 1},
            {
                "at": 102.6,
                "turn": 1,
                "event": "requested",
                "call_id": "c2",
                "tool": "edit",
                "args": {
                    "sha256": "9d0646c3a9c4fe5ab0996c396a2867f9f84b696bc6f168c95af2d1db45f829b1",
                    "chars": 16,
                },
            },
            {
                "at": 102.6,
                "turn": 1,
                "event": "decided",
                "call_id": "c2",
                "decision": "ask",
                "origin": {"rule": "keys-stay", "file": "/etc/handrail/rules.toml", "line": 4},
            },
            {"at": 102.6, "turn": 1, "event": "waiting", "call_id": "c2", "on": ["c1"]},
            {
                "at": 102.6,
                "turn": 1,
                "event": "asked",
                "call_id": "c2",
                "pending": "p1",
                "question": {
                    "sha256": "8beb2b53661b4f88521838f2900e27b95e6c830f485983f4a69ecbf3421c492a",
                    "chars": 25,
                },
                "origin": {"rule": "keys-stay", "file": "/etc/handrail/rules.toml", "line": 4},
            },
        ]
    )


def test_a_redacted_run_says_nothing_of_what_waits_or_was_sent_as_a_file(
    handrail: Handrail, schema: Schemas
) -> None:
    @tool(
        effect=WRITE,
        touches=writes_file,
        headline=lambda path: f"Save {path}",
        preview=lambda path: [FileChange(path, "hidden text", None), "hidden words"],
    )
    async def save(path: str) -> str:
        """Save a file."""
        return path

    executor = Executor(Toolset(save), policy=Rulebook(), approvals=defer)
    waits = executor.run_sync(Call("save", {"path": "hidden.txt"}, "c1"))
    assert waits.pending is not None
    prompt = Prompt((File(b"hidden bytes", "text/plain", "hidden.md"),))
    thought = Reply(
        (Reasoning("hidden thought", "opaque", "anthropic"), TruncatedCall("save", "c9", '{"hid'))
    )
    keep(handrail, FIRST).write_state(RunState(messages=(prompt, thought), waiting=(waits,)))

    whole = handrail("runs", "export", "last").json
    ran = handrail("runs", "export", "last", "--redact")

    for text in ("hidden", "hid", "aGlkZGVuIGJ5dGVz", "opaque"):
        assert text in json.dumps(whole["state"])
        assert text not in json.dumps(ran.json["state"])
    assert shape(schema("runs-export", ran.json)["state"]["waiting"]) == snapshot(
        [
            {
                "v": 1,
                "call_id": "c1",
                "text": "TEXT",
                "parts": [],
                "data": None,
                "failure": {"kind": "pending", "message": "TEXT", "detail": "TEXT"},
                "pending": {
                    "v": 1,
                    "run_id": "TEXT",
                    "turn_id": "TEXT",
                    "key": "TEXT",
                    "position": 0,
                    "round": 0,
                    "call": {"name": "TEXT", "args": "TEXT", "id": "c1"},
                    "effect": "write",
                    "accesses": [{"verb": "TEXT", "resource": "TEXT"}],
                    "question": "TEXT",
                    "fingerprint": "HEX",
                    "asked_at": "TIME",
                    "expires_at": "TIME",
                    "origin": {
                        "rule": "mode ask",
                        "file": "",
                        "line": 0,
                        "kind": "mode",
                        "digest": "",
                    },
                    "once": False,
                    "after": [],
                    "headline": "TEXT",
                    "changes": [
                        {"path": "TEXT", "before": "TEXT", "after": None, "line": 1},
                        "TEXT",
                    ],
                    "principal": None,
                    "grade": "TEXT",
                    "parts": [],
                },
                "metadata": {},
                "found": [],
                "seconds": None,
            }
        ]
    )


def shape(value: Any) -> Any:
    """A redacted value with one word in place of each digest and each number."""
    if isinstance(value, dict):
        return (
            "TEXT"
            if value.keys() == {"sha256", "chars"}
            else {k: shape(v) for k, v in value.items()}
        )
    return [shape(one) for one in value] if isinstance(value, list) else shortened(value)


def shortened(value: Any) -> Any:
    if isinstance(value, float):
        return "TIME"
    return "HEX" if isinstance(value, str) and re.fullmatch("[0-9a-f]{32,}", value) else value


def test_an_export_goes_to_a_new_file_of_ones_own(handrail: Handrail, schema: Schemas) -> None:
    keep(handrail, FIRST)
    path = handrail.workspace / "run.json"

    ran = handrail("runs", "export", "last", "--to", "run.json")

    assert ran == Ran(0, f"{path}\n", "")
    assert json.loads(path.read_text(encoding="utf-8"))["about"]["id"] == FIRST
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = handrail("runs", "export", "last", "--to", "run.json")
    assert near(handrail, again.err) == snapshot("""\
handrail: WS/run.json already exists
  choose another file with `--to`, or delete this one
""")
    nowhere = handrail("runs", "export", "last", "--to", "no/run.json", "--json")
    assert (nowhere.exit, near(handrail, nowhere.error["message"])) == snapshot(
        (1, "cannot write WS/no/run.json: No such file or directory")
    )
    told = handrail("runs", "export", "last", "--to", str(handrail.folder / "r"), "--json")
    assert schema("runs-export", told.json)["id"] == FIRST


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://ana:SECRET@host:1/v1?api_key=SECRET", "http://***@host:1/v1?api_key=***"),
        ("ana:SECRET@host/v1?token=SECRET&x=1", "***@host/v1?token=***&x=1"),
        ("http://host/v1", "http://host/v1"),
    ],
)
def test_an_export_shows_no_login(handrail: Handrail, url: str, shown: str) -> None:
    settings = {"base_url": url, "system": "Write to ana@example.org."}
    saved = keep(handrail, FIRST, settings=settings)

    ran = handrail("runs", "export", "last")

    assert ran.json["about"]["settings"] == {**settings, "base_url": shown}
    assert "SECRET" not in ran.out
    assert saved.about["settings"] == settings  # which a run is gone on with


def test_the_name_of_an_export_does_nothing_to_a_terminal(handrail: Handrail) -> None:
    keep(handrail, FIRST)

    ran = handrail("runs", "export", "last", "--to", "\x1b]0;owned\x07", "--color", "always")

    assert ran.out == f"{handrail.workspace}/\\u{{1B}}]0;owned\\u{{7}}\n"


def took(text: str) -> str:
    """Without what is another at each run."""
    text = re.sub(r"\d{8}-\d{6}-[0-9a-f]{6}", "RUN", text)
    text = re.sub(r"[\d.]+ m?s\b", "TIME", text)
    return re.sub(r"[─█░▒ ]{8,}TIME", " BAR TIME", text)


def test_a_run_that_really_took_place(handrail: Handrail) -> None:
    model = scripted(handrail, "[glob('c1'), write('a.txt', 'c2')]", "'Done.'")
    handrail("run", *model, "Do it.")

    assert took(near(handrail, handrail("runs", "show", "last").out)) == snapshot("""\
run RUN
status     done
prompt     Do it.
workspace  WS

prompt  +TIME
  Do it.
turn 1  +TIME  model took TIME
  #1   glob BAR TIME  ok
       pattern="*.txt"
       allowed by mode ask
  #2   write BAR TIME  denied
       file_path="a.txt", content="x"
       asked by mode ask: Allow `write` to change a.txt?
       denied after TIME
       waited TIME for #1 glob, which used the workspace
       denied: Not run: this needs the user's approval, and no one is …
turn 2  +TIME  model took TIME
  Done.

█ running  ░ waiting for a call or slot  ▒ for approval  ┄ for a retry  ─ other
""")
    assert dump_state(load_state(json.dumps(handrail("runs", "export", "last").json["state"])))
