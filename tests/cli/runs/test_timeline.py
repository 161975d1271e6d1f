"""The timeline of a run: what is drawn of any journal, and that it always fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from rich.cells import cell_len

from handrail import (
    READ,
    WRITE,
    Call,
    CallLimits,
    Executor,
    Retry,
    Text,
    Toolset,
    Transient,
    reads_file,
    tool,
    writes_file,
)
from handrail.approvals import callback, defer
from handrail.cli._runs.timeline import timeline as styled
from handrail.messages import Prompt, Reply, TruncatedCall, Usage
from handrail.permissions import Approver
from handrail.policy import Rulebook
from handrail.runs.history import read_history
from handrail.runs.lines import event_lines, prompt_line, reply_line
from replying import WAYS, Way, stream_lines

RULES = """
[[rule]]
id = "secrets-stay"
decide = "deny"
access = "write file:secret/**"
reason = "secrets are not written"
"""


def timeline(journal: Iterable[Any], width: int, **options: bool) -> list[str]:
    """Its lines without styles."""
    lines = styled(journal, width, **options)
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def tools() -> Toolset:
    tries = count(1)

    @tool(effect=WRITE, touches=lambda path, **_: writes_file(path))
    async def save(path: str, text: str) -> str:
        """Save a file."""
        return f"Saved {len(text)} characters."

    @tool(effect=READ, touches=reads_file, retry=Retry(attempts=2, base=0.0, cap=0.0))
    async def fetch(path: str) -> str:
        """Fetch what is often not there."""
        if next(tries) == 1:
            raise Transient("the server is busy\ntry again")
        return "here it is"

    return Toolset(save, fetch)


def journal(
    approver: Approver, calls: list[Call], *, most: int = 10, way: Way = "whole"
) -> list[dict[str, Any]]:
    """What a real executor tells of calls, a quarter of a second for each event."""
    ticks = count(4_000)
    lines = [
        prompt_line(999.0, Prompt.of("Save two\nfiles.")),
        reply_line(
            1_000.0,
            Reply(
                tuple(calls),
                usage=Usage(input_tokens=1200, output_tokens=85, cached_tokens=0),
                model="m-1",
                seconds=1.0,
            ),
            1,
        ),
    ]

    async def main() -> None:
        async with (
            anyio.create_task_group() as group,
            Executor(
                tools(),
                policy=Rulebook.from_toml(RULES),
                approvals=approver,
                limits=CallLimits(max_running=most),
            ) as executor,
        ):
            group.start_soon(listen, executor.events())
            await executor.run_all(calls, turn=executor.turn("1"))

    async def listen(events: Any) -> None:
        async for one in events:
            lines.extend({**line, "at": next(ticks) / 4} for line in event_lines(one))

    anyio.run(main)
    last = Reply((Text("Both are saved."),), model="m-1", seconds=2.5)
    return stream_lines(way, [*lines, reply_line(2_000.0, last, 2)])


def test_a_truncated_call_is_named_in_its_turn() -> None:
    cut = Reply((Text("Now."), TruncatedCall("save", "c1", '{"pa')), "length")

    lines = [reply_line(0.0, cut, 1), reply_line(1.0, Reply(cut.parts[1:], seconds=1.0), 2)]

    assert timeline(lines, 60) == snapshot(
        [
            "turn 1  +0 ms",
            "  [truncated call of save, not run] Now.",
            "turn 2  +1.0 s  model took 1.0 s",
            "  [truncated call of save, not run]",
        ]
    )


CALLS = [
    Call("save", {"path": "a.txt", "text": "x" * 100}, "c1"),
    Call("fetch", {"path": "a.txt"}, "c2"),
    Call("save", {"path": "secret/key", "text": "y"}, "c3"),
    Call("save", {"path": "b.txt", "text": "z"}, "c4"),
    Call("nosuch", "{", "c5"),
]


@pytest.mark.parametrize("way", WAYS)
def test_a_run_is_drawn_with_what_each_call_waited_for(way: Way) -> None:
    answer = callback(lambda pending: pending.call.id == "c1" or "not\nthat one")
    lines = journal(answer, CALLS, way=way)

    assert timeline(lines, 80) == snapshot(
        [
            "prompt  +0 ms",
            "  Save two …",
            "turn 1  +1.0 s  m-1  model took 1.0 s  1,200 tokens in, 85 out",
            "  #1   save            ───────────────▒──█                   3.2 s  ok",
            '       path="a.txt", text="xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…',
            "       asked by mode ask: Allow `save` to change a.txt?",
            "       approved after 250 ms",
            "  #2   fetch              ───░░░░░░░░░░░░░──█┄┄┄┄┄┄┄┄┄██     5.0 s  ok",
            '       path="a.txt"',
            "       allowed by mode ask",
            "       attempt failed, retried after 0 ms: transient: the server is busy …",
            "       waited 2.2 s for #1 save, which used file:a.txt",
            "  #3   save                   ─────────────────              2.8 s  denied",
            '       path="secret/key", text="y"',
            "       denied by secrets-stay (rules.toml:2)",
            "       denied: Not run: rule 'secrets-stay' denies changing secret/key …",
            "  #4   save                      ───────────────▒▒─          3.0 s  denied",
            '       path="b.txt", text="z"',
            "       asked by mode ask: Allow `save` to change b.txt?",
            "       denied after 250 ms",
            "       denied: not …",
            "  #5   nosuch                       ─────────────────        2.8 s  unknown_tool",
            "       {",
            "       unknown_tool: There is no tool 'nosuch'. Available tools: fetch, save.",
            "turn 2  +16m 41s  m-1  model took 2.5 s",
            "  Both are saved.",
            "",
            "█ running  ░ waiting for a call or slot  ▒ for approval  ┄ for a retry  ─ other",
        ]
    )
    assert timeline(lines, 120) == snapshot(
        [
            "prompt  +0 ms",
            "  Save two …",
            "turn 1  +1.0 s  m-1  model took 1.0 s  1,200 tokens in, 85 out",
            "  #1   save            ─────────────────────────────────▒▒▒───████                                   3.2 s  ok",
            '       path="a.txt", text="xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…',
            "       asked by mode ask: Allow `save` to change a.txt?",
            "       approved after 250 ms",
            "  #2   fetch                 ───────░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░───███┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄████     5.0 s  ok",
            '       path="a.txt"',
            "       allowed by mode ask",
            "       attempt failed, retried after 0 ms: transient: the server is busy …",
            "       waited 2.2 s for #1 save, which used file:a.txt",
            "  #3   save                            ─────────────────────────────────────                         2.8 s  denied",
            '       path="secret/key", text="y"',
            "       denied by secrets-stay (rules.toml:2)",
            "       denied: Not run: rule 'secrets-stay' denies changing secret/key (secrets are not written). Do not work around …",
            "  #4   save                                   ─────────────────────────────────▒▒▒────               3.0 s  denied",
            '       path="b.txt", text="z"',
            "       asked by mode ask: Allow `save` to change b.txt?",
            "       denied after 250 ms",
            "       denied: not …",
            "  #5   nosuch                                       ─────────────────────────────────────            2.8 s  unknown_tool",
            "       {",
            "       unknown_tool: There is no tool 'nosuch'. Available tools: fetch, save.",
            "turn 2  +16m 41s  m-1  model took 2.5 s",
            "  Both are saved.",
            "",
            "█ running  ░ waiting for a call or slot  ▒ for approval  ┄ for a retry  ─ other",
        ]
    )


@pytest.mark.parametrize("way", WAYS)
def test_without_letters_of_its_own_it_is_all_ascii(way: Way) -> None:
    answer = callback(lambda pending: pending.call.id == "c1" or "nein, grüße")
    lines = journal(answer, CALLS, way=way)

    assert timeline(lines, 80, ascii_only=True) == snapshot(
        [
            "prompt  +0 ms",
            "  Save two ...",
            "turn 1  +1.0 s  m-1  model took 1.0 s  1,200 tokens in, 85 out",
            "  #1   save            ---------------?--#                   3.2 s  ok",
            '       path="a.txt", text="xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...',
            "       asked by mode ask: Allow `save` to change a.txt?",
            "       approved after 250 ms",
            "  #2   fetch              ---.............--#~~~~~~~~~##     5.0 s  ok",
            '       path="a.txt"',
            "       allowed by mode ask",
            "       attempt failed, retried after 0 ms: transient: the server is busy ...",
            "       waited 2.2 s for #1 save, which used file:a.txt",
            "  #3   save                   -----------------              2.8 s  denied",
            '       path="secret/key", text="y"',
            "       denied by secrets-stay (rules.toml:2)",
            "       denied: Not run: rule 'secrets-stay' denies changing secret/key ...",
            "  #4   save                      ---------------??-          3.0 s  denied",
            '       path="b.txt", text="z"',
            "       asked by mode ask: Allow `save` to change b.txt?",
            "       denied after 250 ms",
            "       denied: nein, gr\\xfc\\xdfe",
            "  #5   nosuch                       -----------------        2.8 s  unknown_tool",
            "       {",
            "       unknown_tool: There is no tool 'nosuch'. Available tools: fetch, save.",
            "turn 2  +16m 41s  m-1  model took 2.5 s",
            "  Both are saved.",
            "",
            "# running  . waiting for a call or slot  ? for approval  ~ for a retry  - other",
        ]
    )


@pytest.mark.parametrize("way", WAYS)
def test_in_full_all_texts_are_shown(way: Way) -> None:
    answer = callback(lambda pending: pending.call.id == "c1" or "not\nthat one")
    lines = journal(answer, CALLS, way=way)

    assert timeline(lines, 60, full=True) == snapshot(
        [
            "prompt  +0 ms",
            "  Save two",
            "  files.",
            "turn 1  +1.0 s  m-1  model took 1.0 s  1,200 tokens in, 85 …",
            "  #1   save            ─────▒─█          3.2 s  ok",
            "       id c1",
            '       path="a.txt",',
            '       text="xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx',
            "       xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            '       "',
            "       asked by mode ask: Allow `save` to change a.txt?",
            "       approved after 250 ms",
            "       Saved 100 characters.",
            "  #2   fetch            ─░░░░░─█┄┄┄█     5.0 s  ok",
            "       id c2",
            '       path="a.txt"',
            "       allowed by mode ask",
            "       attempt failed, retried after 0 ms: transient: the",
            "       server is busy",
            "       try again",
            "       waited 2.2 s for #1 save, which used file:a.txt",
            "       here it is",
            "  #3   save              ───────         2.8 s  denied",
            "       id c3",
            '       path="secret/key", text="y"',
            "       denied by secrets-stay (rules.toml:2)",
            "       denied: Not run: rule 'secrets-stay' denies changing",
            "       secret/key (secrets are not written). Do not work",
            "       around this. Continue without it, or tell the user.",
            "  #4   save                ──────▒       3.0 s  denied",
            "       id c4",
            '       path="b.txt", text="z"',
            "       asked by mode ask: Allow `save` to change b.txt?",
            "       denied after 250 ms",
            "       denied: not",
            "       that one",
            "  #5   nosuch               ──────       2.8 s  unknown_tool",
            "       id c5",
            "       {",
            "       unknown_tool: There is no tool 'nosuch'. Available",
            "       tools: fetch, save.",
            "turn 2  +16m 41s  m-1  model took 2.5 s",
            "  Both are saved.",
        ]
    )


@pytest.mark.parametrize("way", WAYS)
def test_a_call_that_nobody_has_answered_waits_until_the_last_that_is_known(way: Way) -> None:
    assert timeline(journal(defer, CALLS[:2], way=way), 80) == snapshot(
        [
            "prompt  +0 ms",
            "  Save two …",
            "turn 1  +1.0 s  m-1  model took 1.0 s  1,200 tokens in, 85 out",
            "  #1   save            ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒   16m 40s  pending",
            '       path="a.txt", text="xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…',
            "       asked by mode ask: Allow `save` to change a.txt?",
            "       waiting for approval for 16m 39s",
            "  #2   fetch           ░                                     1.2 s  pending",
            '       path="a.txt"',
            "       allowed by mode ask",
            "       waited 750 ms for #1 save, which used file:a.txt",
            "turn 2  +16m 41s  m-1  model took 2.5 s",
            "  Both are saved.",
            "",
            "█ running  ░ waiting for a call or slot  ▒ for approval  ┄ for a retry  ─ other",
        ]
    )


@pytest.mark.parametrize("way", WAYS)
def test_a_call_that_only_lacks_a_place_says_so(way: Way) -> None:
    calls = [Call("fetch", {"path": name}, name) for name in ("a", "b")]

    assert timeline(journal(defer, calls, most=1, way=way), 80) == snapshot(
        [
            "prompt  +0 ms",
            "  Save two …",
            "turn 1  +1.0 s  m-1  model took 1.0 s  1,200 tokens in, 85 out",
            "  #1   fetch           ────────────────███┄┄┄┄███            2.0 s  ok",
            '       path="a"',
            "       allowed by mode ask",
            "       attempt failed, retried after 0 ms: transient: the server is busy …",
            "  #2   fetch                 ───────░░░░░░░░░░░░░░░░████     2.0 s  ok",
            '       path="b"',
            "       allowed by mode ask",
            "       waited 1.2 s for a free slot, as the limit of running calls was reached",
            "turn 2  +16m 41s  m-1  model took 2.5 s",
            "  Both are saved.",
            "",
            "█ running  ░ waiting for a call or slot  ▒ for approval  ┄ for a retry  ─ other",
        ]
    )


def test_a_journal_that_was_cut_off_is_drawn_as_far_as_it_goes() -> None:
    lines = journal(callback(lambda _: True), CALLS[:2])

    assert [timeline(lines[:end], 80) for end in (0, 1, 2, 3, 9)] == snapshot(
        [
            ["no events are recorded for this run"],
            ["prompt  +0 ms", "  Save two …"],
            [
                "prompt  +0 ms",
                "  Save two …",
                "turn 1  +1.0 s  m-1  model took 1.0 s  1,200 tokens in, 85 out",
            ],
            [
                "prompt  +0 ms",
                "  Save two …",
                "turn 1  +1.0 s  m-1  model took 1.0 s  1,200 tokens in, 85 out",
                "  #1   save            ─                                      0 ms  no result",
                '       path="a.txt", text="xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…',
                "",
                "█ running  ░ waiting for a call or slot  ▒ for approval  ┄ for a retry  ─ other",
            ],
            [
                "prompt  +0 ms",
                "  Save two …",
                "turn 1  +1.0 s  m-1  model took 1.0 s  1,200 tokens in, 85 out",
                "  #1   save            ───────────────────────────▒▒▒▒▒▒     1.5 s  no result",
                '       path="a.txt", text="xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…',
                "       asked by mode ask: Allow `save` to change a.txt?",
                "       approved after 250 ms",
                "  #2   fetch                      ───────────░░░░░░░░░░░     1.0 s  no result",
                '       path="a.txt"',
                "       allowed by mode ask",
                "       waiting 500 ms for #1 save, which used file:a.txt",
                "",
                "█ running  ░ waiting for a call or slot  ▒ for approval  ┄ for a retry  ─ other",
            ],
        ]
    )
    assert timeline(lines[6:], 80) == snapshot(
        [
            "turn 1  +0 ms",
            "  #1   ?               ░░░░░░░░░░░░░░░░────████┄┄┄┄█████     2.0 s  ok",
            "       attempt failed, retried after 0 ms: transient: the server is busy …",
            "       waited 1.0 s for #2 ?, which used file:a.txt",
            "  #2   ?                   ▒▒▒▒────████                     750 ms  ok",
            "       asked by mode ask: Allow `save` to change a.txt?",
            "       approved after 250 ms",
            "turn 2  +16m 39s  m-1  model took 2.5 s",
            "  Both are saved.",
            "",
            "█ running  ░ waiting for a call or slot  ▒ for approval  ┄ for a retry  ─ other",
        ]
    )


def test_of_a_long_path_of_a_model_the_end_is_shown() -> None:
    used = Usage(input_tokens=1200, output_tokens=7)
    reply = Reply(
        (Text("Hi."),), model="/srv/models/a/very/long/path/to/model.py:model", usage=used
    )

    assert timeline([reply_line(3.0, reply, 1)], 80) == snapshot(
        ["turn 1  +0 ms  …long/path/to/model.py:model  1,200 tokens in, 7 out", "  Hi."]
    )


def test_a_turn_whose_reply_did_not_come_is_drawn_and_calls_of_no_agent_have_none() -> None:
    """The first three lines are written while the model still replies."""
    early = journal(callback(lambda _: True), CALLS[1:2], way="early")[:4]
    served = [{key: line[key] for key in line if key != "turn"} for line in early[1:]]

    assert timeline(early, 80) == snapshot(
        [
            "prompt  +0 ms",
            "  Save two …",
            "turn 1  +1.0 s",
            "  #1   fetch           ────────────────────────────────█    500 ms  no result",
            '       path="a.txt"',
            "       allowed by mode ask",
            "",
            "█ running  ░ waiting for a call or slot  ▒ for approval  ┄ for a retry  ─ other",
        ]
    )
    assert timeline(served, 80)[0] == "calls"


def test_an_id_that_comes_again_is_another_call() -> None:
    once: list[dict[str, Any]] = [
        {"at": 1.0, "event": "requested", "call_id": "c", "tool": "one", "args": {}},
        {"at": 2.0, "event": "finished", "call_id": "c", "kind": "", "text": "done"},
    ]
    first, second = ([{**one, "turn": turn} for one in once] for turn in (1, 2))
    lines = [*first, *({**one, "tool": "again"} for one in first), {"event": "prompt"}]
    lines += [{**one, "tool": "two"} for one in second]

    turns = read_history(lines)

    assert [[(call.tool, call.turn) for call in turn.calls] for turn in turns] == [
        [("one", 1), ("again", 1)],
        [],
        [("two", 2)],
    ]


EVENTS = (
    "requested decided asked answered waiting started progressed attempt_failed stored finished "
    "reply prompt nonsense"
).split()
TEXTS = st.text(st.characters(), max_size=30) | st.sampled_from(
    [
        "\x1b[2J\x1b[1A",
        "a\nb",
        "文件" * 40,
        "\u202eabc",
        "x" * 300,
        "e\u0301" * 20,
        "😀",
        "\ud800",
        "",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
IDS = st.sampled_from(["c1", "c2", "", "文\x1b[0m"])
TIMES = st.floats(0, 100) | st.floats() | st.integers() | VALUES
LINES = st.fixed_dictionaries(
    {"event": st.sampled_from(EVENTS)},
    optional={
        "at": TIMES,
        "call_id": IDS,
        "tool": TEXTS,
        "args": VALUES,
        "decision": st.sampled_from(["allow", "ask", "deny"]) | VALUES,
        "reason": TEXTS,
        "question": TEXTS,
        "origin": st.fixed_dictionaries({"rule": TEXTS, "file": TEXTS, "line": VALUES}) | VALUES,
        "answer": TEXTS,
        "on": st.lists(IDS | VALUES, max_size=3) | VALUES,
        "kind": st.sampled_from(["", "pending", "denied", "bug"]) | VALUES,
        "text": TEXTS | VALUES,
        "message": TEXTS,
        "again_in": TIMES,
        "usage": st.dictionaries(st.sampled_from(["input_tokens", "output_tokens"]), VALUES)
        | VALUES,
        "model": TEXTS,
        "turn": st.sampled_from([1, 2]) | VALUES,
        "inner": st.sampled_from(["c1/1"]) | VALUES,
        "seconds": TIMES,
    },
)


@given(st.lists(LINES | VALUES, max_size=12), st.integers(-1, 200), st.booleans(), st.booleans())
@example(
    lines=[
        {"event": "requested", "call_id": "c1", "tool": "文" * 8},
        {"event": "finished", "call_id": "c1", "kind": "denied"},
    ],
    width=45,
    ascii_only=False,
    full=False,
)
@example(
    lines=[
        {"event": "prompt", "at": 1, "text": "Go."},
        {"event": "requested", "at": 1, "call_id": "c1", "tool": "look"},
        {"event": "finished", "at": 2, "call_id": "c1", "kind": "denied", "text": "No."},
        {"event": "reply", "at": 3, "text": "Done."},
    ],
    width=1,
    ascii_only=False,
    full=True,
)
def test_any_journal_is_drawn_within_the_width_and_nothing_in_it_acts(
    lines: list[Any],
    width: int,
    ascii_only: bool,  # noqa: FBT001  as hypothesis gives it
    full: bool,  # noqa: FBT001
) -> None:
    drawn = timeline(lines, width, ascii_only=ascii_only, full=full)

    assert [line for line in drawn if cell_len(line) > max(1, width)] == []
    assert [line for line in drawn if not line.isprintable()] == []
    assert not ascii_only or all(line.isascii() for line in drawn)


def broken(lines: list[dict[str, Any]]) -> Iterator[list[Any]]:
    """A journal with each of its values replaced by others."""
    for place, line in enumerate(lines):
        for key in line:
            for odd in (None, [], 10**400):
                yield [*lines[:place], {**line, key: odd}, *lines[place + 1 :]]


def test_a_real_journal_with_any_value_spoilt_is_drawn() -> None:
    lines = journal(callback(lambda pending: pending.call.id == "c1" or "no"), CALLS)

    for spoilt in broken(lines):
        assert all(cell_len(line) <= 80 for line in timeline(spoilt, 80))


def test_arguments_too_deep_to_be_written_are_not() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    lines = [{"at": 1, "event": "requested", "call_id": "c", "tool": "t", "args": deep}]

    assert timeline(lines, 60) == snapshot(
        [
            "calls",
            "  #1   t               ─                  0 ms  no result",
            "       arguments that cannot be shown",
        ]
    )
    while deep:  # a value as deep as this cannot be taken apart in one go
        deep = deep.pop()
