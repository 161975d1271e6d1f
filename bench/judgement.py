"""What a decision costs: beside a dictionary lookup, and for shell lines beside the bare lexer.

Sides take turns in one run, and the best turn of each counts: whatever else the machine does only
ever adds. Only the time of the processor counts.

A shell line costs more than its lexer and its rules: a decision also says what the line could lose,
which needs the git index, and what a recursive command would read, which needs the files.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from definition import Row
from handrail import DESTROY, WRITE, Access, Call, Spec, writes_file
from handrail.permissions import CheckedCall
from handrail.policy import Level, Rulebook, builtin_rules, parse
from handrail.policy._rules.shell_command import read_shell_command
from handrail.policy._shell.strict import lex

CORPUS = Path(__file__).parents[1] / "tests" / "data" / "benign-commands.txt"
TURNS = 25
MANY = 2_000
MOST_MEDIAN, MOST_LATE = 25, 55


def hundred() -> Rulebook:
    """A hundred rules of all kinds."""
    tables = [f'decide="deny"\naccess="write file:secret{n}/**"' for n in range(30)]
    tables += [f'decide="deny"\naccess="* file:**/*.key{n}"' for n in range(10)]
    tables += [f'decide="allow"\ntools="tool{n}"' for n in range(20)]
    tables += [f'decide="allow"\ncommand="cmd{n} sub"\noperands=["path*"]' for n in range(30)]
    tables += [f'decide="deny"\ncommand="bad{n}"' for n in range(9)]
    tables += ['decide="allow"\ntools="save"\naccess="write file:src/**"']
    text = "\n".join(f"[[rule]]\n{table}\n" for table in tables)
    return Rulebook(parse(text, file="rules.toml", level=Level.USER).rules)


def best(*sides: Callable[[], Any]) -> list[float]:
    """Seconds of each side's best turn."""
    found = [float("inf")] * len(sides)
    for _ in range(TURNS):
        for place, side in enumerate(sides):
            started = time.process_time()
            side()
            found[place] = min(found[place], time.process_time() - started)
    return found


def calls() -> Iterator[Row]:  # noqa: C901  each side is a function
    book = hundred()
    save = Spec(name="save", description="", input_schema={}, effect=WRITE)
    call = Call("save", '{"path":"src/a.py"}', "1")
    again = CheckedCall.recorded(call, save, (writes_file("src/a.py"),))
    others = [
        CheckedCall.recorded(call, save, (writes_file(f"src/d{n}/a.py"),)) for n in range(MANY)
    ]
    table = {f"tool{n}": n for n in range(1_000)}
    turns = range(MANY)

    def looked_up() -> None:
        for _ in turns:
            table["tool500"]

    def nothing() -> None:
        for _ in turns:
            pass

    def judged() -> None:
        for _ in turns:
            book(again)

    def judged_first() -> None:
        book.set_mode("ask")  # forgets what it decided
        for one in others:
            book(one)

    lookup, empty, ours, first = best(looked_up, nothing, judged, judged_first)
    bare = lookup - empty
    seen, new = (ours - empty) / bare, (first - empty) / bare
    yield Row("decision, 100 rules, resource known", seen, 30, "lookups", "a dict", seen <= 30)
    yield Row("decision, 100 rules, resource new", new, 2_000, "lookups", "our own", new <= 2_000)


def lines() -> Iterator[Row]:
    book = Rulebook(builtin_rules("read_only", "development"))
    bash = Spec(name="bash", description="", input_schema={}, effect=DESTROY)
    touched = (Access(DESTROY, "*"),)
    text = CORPUS.read_text(encoding="utf-8").splitlines()
    corpus = [one for one in text if one and not one.startswith("#")]
    times = list[float]()
    for line in corpus:
        call = CheckedCall.recorded(Call("bash", {"command": line}, "1"), bash, touched)

        def judged(call: CheckedCall = call) -> None:
            read_shell_command.cache_clear()
            book(call)

        ours, bare = best(judged, lambda line=line: lex(line))
        times.append(ours / bare)
    middle, late = statistics.median(times), sorted(times)[int(0.9 * len(times))]
    rows = ("median", middle, MOST_MEDIAN), ("9 of 10", late, MOST_LATE)
    for which, found, limit in rows:
        held = found <= limit
        yield Row(f"shell line, shipped rules, {which}", found, limit, "x lexer", "our own", held)


def rows() -> Iterator[Row]:
    yield from calls()
    yield from lines()
