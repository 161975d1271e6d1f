"""Programs: what ten tasks cost in requests and tokens in three ways, and what a call in one costs.

No model is used: the calls and results are those of the programs below. Tokens are a quarter of
the characters. CPU is that of this process; the interpreter has its own.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from typing_extensions import TypedDict

from definition import Row
from execution import counts_of
from handrail import READ, WRITE, Access, Call, Executor, Hook, Result, Toolset, tool
from handrail.programs import ProgramLimits, program_tool

LINE = "def function_{n}(argument: int) -> int: return argument + {n}\n"


class Issue(TypedDict):
    id: int
    labels: list[str]
    days: int
    title: str


class Order(TypedDict):
    id: int
    user: str
    cents: int
    late: bool


class Person(TypedDict):
    id: int
    name: str
    department: str
    salary: int
    manager: int


class Slot(TypedDict):
    hour: int
    free: bool


def nothing(**_: Any) -> tuple[Access, ...]:
    return ()


@tool(effect=READ, touches=nothing)
def list_files(folder: str) -> list[str]:
    """List the files of a folder."""
    return [f"{folder}/module_{n}.py" for n in range(20)]


@tool(effect=READ, touches=nothing)
def read_file(path: str) -> str:
    """Read a file."""
    n = int("".join(filter(str.isdigit, path)) or 0)
    head = "import json\n" if n % 3 == 0 else ""
    return head + "".join(LINE.format(n=k) for k in range(14 + n))


@tool(effect=READ, touches=nothing)
def list_issues(page: int) -> list[Issue]:
    """List issues, thirty on a page."""
    numbers = range(page * 30, page * 30 + (30 if page < 4 else 5))
    return [
        {
            "id": n,
            "labels": ["bug"] if n % 4 else [],
            "days": n * 3 % 400,
            "title": f"Issue number {n} about something that is broken",
        }
        for n in numbers
    ]


@tool(effect=WRITE, touches=lambda issue, **_: Access(WRITE, f"issue:{issue}"))
def label_issue(issue: int, label: str) -> str:
    """Add a label to an issue."""
    return f"labelled {issue}"


@tool(effect=READ, touches=nothing)
def list_orders(user: str) -> list[Order]:
    """List the orders of a user."""
    return [
        {"id": len(user) * 100 + n, "user": user, "cents": 1000 + n, "late": n % 8 == 0}
        for n in range(20)
    ]


@tool(effect=WRITE, touches=lambda order: Access(WRITE, f"order:{order}"))
def refund(order: int) -> str:
    """Refund an order."""
    return f"refunded {order}"


@tool(effect=READ, touches=nothing)
def list_people(department: str = "") -> list[Person]:
    """List people, of all departments or one."""
    names = ["sales", "law", "code", "data"]
    people: list[Person] = [
        {
            "id": n,
            "name": f"Person {n}",
            "department": names[n % 4],
            "salary": 50_000 + n,
            "manager": n // 10,
        }
        for n in range(200)
    ]
    return [one for one in people if department in ("", one["department"])]


@tool(effect=WRITE, touches=lambda person, **_: Access(WRITE, f"person:{person}"))
def set_salary(person: int, salary: int) -> str:
    """Set a salary."""
    return "ok"


@tool(effect=READ, touches=nothing)
def read_rows(table: str, page: int) -> list[list[int]]:
    """Read rows of a table, a hundred on a page."""
    return [[n, n * n, n % 7] for n in range(page * 100, page * 100 + (100 if page < 3 else 20))]


@tool(effect=READ, touches=nothing)
def find_slots(person: str) -> list[Slot]:
    """Find the hours of a person."""
    return [{"hour": hour, "free": hour % 3 == 0} for hour in range(9, 18)]


@tool(effect=WRITE, touches=lambda **_: Access(WRITE, "calendar:mine"))
def invite(hour: int, people: list[str]) -> str:
    """Invite people."""
    return f"invited at {hour}"


@tool(effect=WRITE, touches=lambda person, **_: Access(WRITE, f"mail:{person}"))
def send_mail(person: int, text: str) -> str:
    """Send a mail."""
    return "sent"


@tool(effect=READ, touches=nothing)
def look_up(word: str) -> str:
    """Look up a word."""
    return f"{word}: a word"


TOOLS = Toolset(
    list_files,
    read_file,
    list_issues,
    label_issue,
    list_orders,
    refund,
    list_people,
    set_salary,
    read_rows,
    find_slots,
    invite,
    send_mail,
    look_up,
)
TASKS = {
    "check 20 files for an import": "import asyncio\nfiles = await list_files(folder='src')\ntexts = await asyncio.gather(*[read_file(path=f) for f in files])\n[f for f, t in zip(files, texts) if 'import json' in t]",
    "longest of 20 files": "import asyncio\nfiles = await list_files(folder='src')\ntexts = await asyncio.gather(*[read_file(path=f) for f in files])\nmax(zip(map(len, texts), files))",
    "label stale bugs (pages)": "n, page, stale = 0, 0, []\nwhile True:\n    issues = await list_issues(page=page)\n    stale += [i['id'] for i in issues if 'bug' in i['labels'] and i['days'] > 380]\n    page += 1\n    if len(issues) < 30:\n        break\nfor i in stale:\n    await label_issue(issue=i, label='stale')\nlen(stale)",
    "refund late orders": "import asyncio\nlists = [await list_orders(user=u) for u in ['a', 'bb', 'ccc', 'dddd']]\nlate = [o['id'] for orders in lists for o in orders if o['late']]\nlen(await asyncio.gather(*[refund(order=i) for i in late]))",
    "raise in a department": "people = [p for p in await list_people() if p['department'] == 'data' and p['salary'] > 50_165]\nfor p in people:\n    await set_salary(person=p['id'], salary=p['salary'] + 1000)\nlen(people)",
    "sum of a column": "total, page = 0, 0\nwhile True:\n    rows = await read_rows(table='t', page=page)\n    total += sum(r[1] for r in rows)\n    page += 1\n    if len(rows) < 100:\n        break\ntotal",
    "mail managers of guests": "import asyncio\npeople = await list_people(department='law')\nmanagers = sorted({p['manager'] for p in people})[:5]\nawait asyncio.gather(*[send_mail(person=m, text='Guests come.') for m in managers])\nmanagers",
    "find a free hour and invite": "slots = await find_slots(person='ann')\nhour = [s['hour'] for s in slots if s['free']][0]\nawait invite(hour=hour, people=['ann'])",
    "two dependent calls": "orders = await list_orders(user='a')\nawait refund(order=orders[0]['id'])",
    "one lookup": "await look_up(word='handrail')",
}
PROMPT = "You are an assistant. " * 20


class Spent(NamedTuple):
    requests: int = 0
    tokens: float = 0
    cached: float = 0


def tokens_of(value: object) -> float:
    return len(value if isinstance(value, str) else json.dumps(value)) / 4


def cost(fixed: float, steps: list[float]) -> Spent:
    """Return the input tokens of a request before each step, and of the last one."""
    history, before, tokens, cached = fixed, 0.0, 0.0, 0.0
    for step in [*steps, 0.0]:
        tokens += history
        cached += (history - before) + before / 10
        before, history = history, history + step
    return Spent(len(steps) + 1, tokens, cached)


async def run_task(code: str) -> tuple[list[list[tuple[Call, Result]]], Result, float]:
    rounds: dict[str, list[tuple[Call, Result]]] = {}

    def after(call: Any, result: Result) -> Result:
        if call.name != "run_program":
            rounds.setdefault(call.turn.key, []).append((call.call, result))
        return result

    program = program_tool(TOOLS)
    async with Executor(Toolset(*TOOLS, program), hooks=[Hook(after=after)]) as executor:
        result = await executor.run(Call("run_program", {"code": code}))
    assert result.failure is None, result.text
    ordered = [sorted(one, key=lambda ran: int(ran[0].id[1:])) for one in rounds.values()]
    return ordered, result, tokens_of(program.spec.description)


async def compute_value() -> dict[str, tuple[int, list[Spent]]]:
    """Return the calls of each task, and what they cost in three ways; and the sums."""
    defined = sum(tokens_of([s.name, s.description, s.input_schema]) for s in TOOLS.specs)
    sums = [Spent(), Spent(), Spent()]
    found = dict[str, tuple[int, list[Spent]]]()
    for name, code in TASKS.items():
        rounds, result, described = await run_task(code)
        each = [[tokens_of([c.name, c.args]) + tokens_of(r.text) for c, r in one] for one in rounds]
        prompt = tokens_of(PROMPT + name)
        ways = [
            cost(defined + prompt, [step for one in each for step in one]),
            cost(defined + prompt, [sum(one) for one in each]),
            cost(described + prompt, [tokens_of(code) + tokens_of(result.text)]),
        ]
        sums = [
            Spent(*(a + b for a, b in zip(x, y, strict=True)))
            for x, y in zip(sums, ways, strict=True)
        ]
        found[name] = sum(map(len, each)), ways
    return found | {"sum": (sum(calls for calls, _ in found.values()), sums)}


WAYS = ("one at a time", "in parallel", "program")


async def value() -> None:
    """Print what tasks cost."""
    print(f"{'task':31}{'calls':>6}" + "".join(f"{name:>26}" for name in WAYS))
    found = await compute_value()
    for name, (calls, ways) in found.items():
        cells = "".join(f"{f'{w.requests}, {w.tokens:,.0f} [{w.cached:,.0f}]':>26}" for w in ways)
        print(f"{name:31}{calls:>6}{cells}")
    one, several, program = found["sum"][1]
    print(
        f"tokens: {one.tokens / program.tokens:.1f} x and {several.tokens / program.tokens:.1f} x those of programs; with caching {one.cached / program.cached:.1f} x and {several.cached / program.cached:.1f} x"
    )


def table() -> list[str]:
    """Return the rows of the table on the page about programs."""
    rows = [f"| task | calls | {' | '.join(WAYS)} |", "|---" * (2 + len(WAYS)) + "|"]
    for name, (calls, ways) in anyio.run(compute_value).items():
        cells = " | ".join(f"{w.requests}, {w.tokens:,.0f} [{w.cached:,.0f}]" for w in ways)
        rows.append(f"| {name} | {calls} | {cells} |")
    return rows


HELD = {"inner": 2.8, "loop": 5.4, "gather": 3.0}
"""How many times a plain call, in instructions of this process."""
WHERE = {"inner": "in a turn of a tool", "loop": "in a program's loop", "gather": "in its gather"}


def rows() -> list[Row]:
    """Return what a call costs inside another one, beside a plain call."""
    made = list[Row]()
    script = [sys.executable, str(Path(__file__).parent / "counted_programs.py")]
    cost = counts_of([*script, "loop"]) | counts_of([*script, "gather"])
    for name, most in HELD.items():
        each, plain = (cost[f"{name} 41"] - cost[f"{name} 1"]) / 40, cost["plain"]
        said = f"ratio {each / plain:.2f} <= {most:g}"
        made.append(Row(f"a call {WHERE[name]}", each, plain, "kIr", said, each <= most * plain))
    return made


ROUNDS = 15
CALLS = 200


async def cpu(work: Callable[[], Awaitable[Result]], times: int) -> float:
    """Return the CPU of one piece of work, in microseconds."""
    began = time.process_time()
    for _ in range(times):
        result = await work()
        assert result.failure is None, result.text
    return (time.process_time() - began) / times * 1e6


async def costs() -> None:
    """Print the least CPU of each kind, measured by turns: other processes only add to it."""

    @tool(effect=READ, touches=nothing)
    async def one(n: int) -> int:
        """Return a number."""
        return n

    loop = "for n in range({}):\n    x = await one(n=n)\nx"
    wide = "import asyncio\nlen(await asyncio.gather(*[one(n=n) for n in range({})]))"
    codes = {
        "start": "1",
        "loop 1": loop.format(1),
        "loop": loop.format(1 + CALLS),
        "gather 1": wide.format(1),
        "gather": wide.format(1 + CALLS),
    }
    limits = ProgramLimits(calls=2_000)
    async with Executor(Toolset(one, program_tool([one], limits=limits))) as executor:

        async def plain() -> Result:
            return await executor.run(Call("one", {"n": 1}))

        async def run(code: str) -> Result:
            return await executor.run(Call("run_program", {"code": code}))

        first = await cpu(lambda: run("await one(n=0)"), 1)
        least = dict.fromkeys(["plain", *codes], float("inf"))
        for _ in range(ROUNDS):
            least["plain"] = min(least["plain"], await cpu(plain, 1_000))
            for name, code in codes.items():
                spent = await cpu(lambda code=code: run(code), 2)
                least[name] = min(least[name], spent)
    each = least["plain"]
    row = (least["loop"] - least["loop 1"]) / CALLS
    many = (least["gather"] - least["gather 1"]) / CALLS
    print(
        f"executor.run {each:.0f} us; a program, first {first / 1000:.1f} ms, again {least['start'] / 1000:.2f} ms"
    )
    print(
        f"a call in a loop {row:.0f} us ({row / each:.1f} x), in a gather {many:.0f} us ({many / each:.1f} x)"
    )


if __name__ == "__main__":
    if "--table" in sys.argv:
        print("\n".join(table()))
        sys.exit()
    anyio.run(value)
    anyio.run(costs)
