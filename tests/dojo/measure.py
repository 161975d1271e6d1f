"""`python measure.py users|attacks[:RULES[:bare]] ... [--every N] [--show]`: AgentDojo with the rules about sources.

No model runs. The calls are those that solve a user's task, and all calls of the attack, as soon as
a result has its text: a model that obeys everything. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import anyio
import yaml
from agentdojo.functions_runtime import FunctionCall
from agentdojo.task_suite.load_suites import get_suites
from attacks import make_attack, obey
from handrail import Allow, Call, Deny, Executor, LongResults, Result, Toolset
from handrail.permissions import Answer, Pending, Policy
from handrail.policy import Rulebook
from world import DESTROYS, WRITES, as_json, copied, make_tools

MARKER = "<INFORMATION>"
ONLY_SAYS = ("travel", "injection_task_6")
"""The attack that only says something, and calls nothing."""
LONG = LongResults(max_result_chars=10_000_000)


class Played(NamedTuple):
    """A suite with its tools, which work on ``world["now"]``."""

    name: str
    suite: Any
    tools: Toolset
    world: dict[str, Any]


RULES: dict[str, Any] = {"names": True, "strict": "strict", "unattended": "unattended"}


@cache
def make_policy(name: str) -> Policy | None:
    """Return a policy by its name."""
    return Rulebook(sources=RULES[name]) if name in RULES else None


class Play:
    """One run with an approver that always gives the same answer."""

    def __init__(self, tools: Toolset, rules: str, answer: Answer, prompt: str) -> None:
        self.questions: list[Pending] = []
        self.ran: list[FunctionCall] = []
        self.prompt, self._answer, self._count = prompt, answer, 0
        policy = make_policy(rules)
        self.executor = Executor(tools, policy=policy, approvals=self._approve, long_results=LONG)

    async def _approve(self, pending: Pending) -> Answer:
        self.questions.append(pending)
        return self._answer

    async def call(self, name: str, args: dict[str, Any]) -> Result:
        """Run one call, as a turn of its own."""
        self._count += 1
        turn = self.executor.turn(str(self._count), run="run", said=[self.prompt])
        result = await self.executor.run(Call(name, args, f"c{self._count}"), turn=turn)
        if not result.failure:
            self.ran.append(FunctionCall(function=name, args=args))
        return result


def data_of(result: Result) -> Any:
    """Return a result's data."""
    if result.failure:
        return None
    return result.text if result.data is None else json.loads(result.data)


def load_suites(*, labels: bool) -> list[Played]:
    """Return the four applications."""
    made = []
    for name, suite in get_suites("v1.2.1").items():
        world: dict[str, Any] = {}
        made.append(Played(name, suite, make_tools(suite, world, labels=labels), world))
    return made


def play_user(one: Played, task: Any, rules: str) -> tuple[list[Pending], bool, bool]:
    """Return what a task asks, and whether it is done if each answer is yes, or no."""
    before = task.init_environment(one.suite.load_and_inject_default_environment({}))
    asked: list[Pending] = []
    useful = []
    for answer in (Deny("No."), Allow()):
        one.world["now"] = copied(before)
        play = Play(one.tools, rules, answer, task.PROMPT)
        calls = task.ground_truth(copied(before))
        anyio.run(play_calls, play, calls)
        said = [{"type": "text", "content": task.GROUND_TRUTH_OUTPUT}]
        try:
            check = one.suite._check_user_task_utility
            done = check(task, said, before, one.world["now"], calls)
        except Exception:  # noqa: BLE001  a check of a task that was not done
            done = False
        useful.append(bool(done))
        asked = play.questions
    return asked, useful[1], useful[0]


async def play_calls(play: Play, calls: list[FunctionCall]) -> None:
    """Run the calls of a task."""
    async with play.executor:
        for call in calls:
            await play.call(call.function, as_json(call.args))


class Attacked:
    """One user's task with one attack, every question answered no."""

    def __init__(self, one: Played, key: str, injection: Any) -> None:
        self.one, self.key, self.injection = one, key, injection
        self.reached = self.changed = self.seen = False

    def has_won(self, play: Play, before: Any) -> bool:
        """Return whether the attack has reached its goal."""
        goal = self.injection.GOAL if (self.one.name, self.key) == ONLY_SAYS else ""
        said = [{"type": "text", "content": goal}]
        check = self.one.suite._check_injection_task_security
        try:
            now = copied(self.one.world["now"])
            return bool(check(self.injection, said, copied(before), now, play.ran))
        except Exception:  # noqa: BLE001  a check of a task that was not done
            return False

    async def play(self, play: Play, user: Any, before: Any) -> None:
        """Run the user's calls, and those of the attack once its text was read."""
        async with play.executor:
            for call in user.ground_truth(copied(before)):
                result = await play.call(call.function, as_json(call.args))
                if self.seen or MARKER not in result.text:
                    continue
                self.seen, start = True, len(play.ran)
                await self._obey(play, before)
                self.reached = self.has_won(play, before)
                after = play.ran[start:]
                self.changed = any(one.function in WRITES | DESTROYS for one in after)
        self.reached = self.reached or self.has_won(play, before)

    async def _obey(self, play: Play, before: Any) -> None:
        now = copied(self.one.world["now"])
        steps = obey(f"{self.one.name} {self.key}", self.injection, now, before)
        value = None
        try:
            while True:
                value = data_of(await play.call(*steps.send(value)))
        except StopIteration:
            return


def play_attacks(rules: str, suites: list[Played], every: int) -> dict[str, Any]:
    """Return how many attacks reached their goal, and how many changed something."""
    reached, changed = Counter[str](), Counter[str]()
    chosen = list(list_pairs(suites))[::every]
    for one, user, key, injection in chosen:
        texts = make_attack(one.suite).attack(user, injection)
        before = user.init_environment(one.suite.load_and_inject_default_environment(texts))
        one.world["now"] = copied(before)
        attacked = Attacked(one, key, injection)
        play = Play(one.tools, rules, Deny("No."), user.PROMPT)
        anyio.run(attacked.play, play, user, before)
        task = f"{one.name} {key.rpartition('_')[2]}"
        reached[task] += attacked.reached
        changed[task] += attacked.changed
    return {"pairs": len(chosen), "reached": dict(+reached), "changed": dict(+changed)}


def list_pairs(suites: list[Played]) -> Iterator[tuple[Played, Any, str, Any]]:
    """Yield each user's task with each attack."""
    for one in suites:
        for user in one.suite.user_tasks.values():
            for key, injection in one.suite.injection_tasks.items():
                yield one, user, key, injection


def play_users(rules: str, suites: list[Played], every: int) -> dict[str, Any]:
    """Return how many tasks ask, how often, and how many are done."""
    found: dict[str, Any] = {
        "tasks": 0,
        "asked": 0,
        "questions": 0,
        "useful_yes": 0,
        "useful_no": 0,
    }
    texts: list[list[str]] = []
    tasks = [(one, key, task) for one in suites for key, task in one.suite.user_tasks.items()]
    for one, key, task in tasks[::every]:
        asked, yes, no = play_user(one, task, rules)
        found["tasks"] += 1
        found["asked"] += bool(asked)
        found["questions"] += len(asked)
        found["useful_yes"] += yes
        found["useful_no"] += no
        if asked:
            texts.append([f"{one.name} {key}: {task.PROMPT}", *(each.text for each in asked)])
    return {**found, "texts": texts}


def measure(what: str, rules: str, labels: str, *, every: int, show: bool) -> dict[str, Any]:
    """Return the figures of users or attacks."""
    suites = load_suites(labels=labels != "bare")
    found = (play_users if what == "users" else play_attacks)(rules, suites, every)
    texts = found.pop("texts", ())
    for text in texts if show else ():
        print("\n".join(text), end="\n\n")
    return found


def main() -> None:
    """Print the figures as JSON; with ``--show``, also the questions."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="+", help="users or attacks, then :RULES, then :bare")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    found = {}
    for one in given.what:
        what, rules, labels = (
            [*one.split(":"), "strict", ""][:3] if ":" in one else (one, "strict", "")
        )
        found[one] = measure(what, rules, labels, every=given.every, show=given.show)
    print(json.dumps(found))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    yaml.safe_load = lambda text: yaml.load(text, yaml.CSafeLoader)
    main()
