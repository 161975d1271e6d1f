"""Modes: what each lets pass, and that only the host changes it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from handrail import READ, Call, CheckedCall, Context, Spec, Tool, Toolset, tool
from handrail.approvals import callback, render_request
from handrail.permissions import Allow, Ask, Decision, Pending
from handrail.policy import InvalidRule, Mode, Rulebook, RulePaths, builtin_rules, load, strictest
from vectors.stage import Outcome, bash, line, ran, rules, tried

SHIPPED = builtin_rules("read_only", "development")


class Judge(Protocol):
    """A policy in a mode."""

    @property
    def mode(self) -> Mode:
        """The one that counts."""
        ...

    def __call__(self, *args: Any) -> Decision:
        """Judge a call."""
        ...


class Make(Protocol):
    """Makes a policy."""

    def __call__(self, rules: Any = (), **options: Any) -> Judge:
        """With these rules, in a mode."""
        ...


def saved(policy: Judge, path: str = "src/a.py", **options: Any) -> Outcome:
    return tried(policy, Call("save", {"path": path}, "1"), **options)


def yes(_pending: Pending) -> bool:
    return True


def _hint_is_not_believed(make: Make) -> bool:
    async def send(_args: object, _context: Context) -> None:
        ran.append("sent")

    schema = {"type": "object", "annotations": {"readOnlyHint": True}, "readOnlyHint": True}
    far = Toolset(Tool.remote(Spec(name="far", description="", input_schema=schema), send))
    call = Call("far", {}, "1")
    return tried(make(mode="plan"), call, far).held and tried(make(mode="ask"), call, far).asked


def _model_does_not_leave_the_plan(make: Make) -> bool:
    """A tool that would change the mode is one that writes; a host may have it ask instead."""
    policy = make(mode="plan")

    @tool
    async def exit_plan() -> None:
        """Leave the plan."""
        ran.append("left")

    @tool(name="exit_plan", effect=READ)
    async def asking() -> None:
        """Leave the plan."""
        ran.append("left")

    call = Call("exit_plan", {}, "1")
    asks = make(rules('[[rule]]\ndecide = "ask"\ntools = "exit_plan"'), mode="plan")
    return (
        tried(policy, call, Toolset(exit_plan)).held
        and tried(asks, call, Toolset(asking)).asked
        and policy.mode is Mode.PLAN
    )


ROOTS = [
    "rm -rf /",
    "rm -rf /*",
    "rm -fr --no-preserve-root /",
    "rm -r -f $HOME",
    'rm -rf "$HOME"',
    "rm -rf ~",
    "rm -rf ~/",
    "sudo rm -rf /",
    "cd x && rm -rf /",
]


def _nothing_is_wrecked(make: Make, commands: list[str], modes: Mapping[str, bool]) -> bool:
    """Whatever the mode, the sandbox and the rules."""
    anything = '[[rule]]\ndecide = "allow"\ncommand = ["rm", "sudo", "cd"]\nflags = "any"\n'
    loose = (*SHIPPED, *rules(f'{anything}operands = "any"'))
    return all(
        line(make(loose, mode=mode, sandboxed=sandboxed, root=False), command).held
        for mode, sandboxed in modes.items()
        for command in commands
    )


def _expansion_is_shown(make: Make) -> bool:
    shown: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a/1.x", "a/2.x", "b/3.y", "b/4.z"):
            (Path(folder) / name).parent.mkdir(exist_ok=True)
            (Path(folder) / name).touch()

        def person(pending: Pending) -> bool:
            rows = render_request(pending, workspace=folder).lines
            shown.append("\n".join(row.text for row in rows))
            return False

        line(make(SHIPPED, mode="edits"), "rm -rf a/*.x b/*.y", approvals=callback(person))
    told = ["a/*.x matches 2 names: a/1.x, a/2.x", "b/*.y matches 1 name: b/3.y"]
    return len(shown) == 3 and all(one in text for one in told for text in shown) and not ran


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _headless(make: Make) -> bool:
    """Where nobody is, what would be asked is refused; the default is to ask."""
    with environment(CI="true", TERM="dumb"):
        policy = make()
        return policy.mode is Mode.ASK and saved(policy).asked and line(policy, "make").asked


def _mode_is_the_hosts(make: Make) -> bool:
    """Not an argument's, not a file's of the workspace, not the environment's, not a tool's."""

    @tool(tags=["mode=open"])
    async def save(path: str, mode: str = "open", permission_mode: str = "open") -> None:
        """Save in mode open."""
        ran.append(path)

    call = Call("save", {"path": "a", "mode": "open", "permission_mode": "bypass"}, "1")
    loose = {"HANDRAIL_MODE": "open", "MODE": "open", "HANDRAIL_PERMISSION_MODE": "auto"}
    with tempfile.TemporaryDirectory() as folder, environment(**loose):
        _write(Path(folder) / "repo" / ".handrail" / "rules.toml", 'mode = "edits"\n')
        _write(Path(folder) / "repo" / "mode", "edits")
        places = RulePaths.of(Path(folder) / "repo", config=Path(folder) / "config")
        loaded = load(places)
        made = make(mode="ask")
        return (
            tried(made, call, Toolset(save)).held
            and made.mode is loaded.mode is Mode.ASK
            and tried(loaded, call, Toolset(save)).held
        )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _child_is_as_strict(make: Make) -> bool:
    parents = [make(mode=mode) for mode in ("plan", "ask")]
    children = [make(mode=strictest(one.mode, "open"), root=False) for one in parents]
    return [one.mode for one in children] == [Mode.PLAN, Mode.ASK] and all(
        saved(one).held for one in children
    )


def _root_is_refused(make: Make) -> bool:
    """Root has no open mode without a sandbox, from the start or later."""
    try:
        make(mode="open", root=True)
    except InvalidRule:
        pass
    else:
        return False
    policy: Any = make(mode="ask", root=True)
    try:
        policy.set_mode("open")
    except InvalidRule:
        return policy.mode is Mode.ASK and saved(policy).asked
    return False


def _never_without_a_sandbox(make: Make) -> bool:
    """No sandbox is no reason to run what one should have held; and the question says so."""
    policy = make(SHIPPED, mode="edits", sandboxed=False, root=False)
    outcomes = [line(policy, command) for command in ("./build.sh", "python3 -c 'x'", "$(x)")]
    return (
        all(one.asked for one in outcomes)
        and "do not run in a sandbox" in outcomes[0].results[0].text
    )


CHECKS: dict[str, Callable[[Make], bool]] = {
    "mode-001": lambda make: saved(make(mode="plan"), approvals=callback(yes)).denied,
    "mode-002": lambda make: (
        line(make(SHIPPED, mode="plan"), "touch x", approvals=callback(yes)).denied
    ),
    "mode-003": lambda make: (
        line(make(SHIPPED, mode="plan"), "git log").allowed
        and line(make(SHIPPED, mode="plan"), "git log --output=x").denied
    ),
    "mode-004": _hint_is_not_believed,
    "mode-005": _model_does_not_leave_the_plan,
    "mode-006": lambda make: saved(make()).asked,
    "mode-007": lambda make: saved(make(SHIPPED, mode="edits")).allowed,
    "mode-008": lambda make: line(make(SHIPPED, mode="edits"), "rm -rf build").asked,
    "mode-009": lambda make: all(
        saved(make(mode=mode, root=False), ".git/config").asked for mode in ("edits", "open")
    ),
    "mode-010": lambda make: _nothing_is_wrecked(make, ["rm -rf ~"], {"edits": True, "open": True}),
    "mode-011": lambda make: (
        _nothing_is_wrecked(make, ROOTS, {one.name.lower(): True for one in Mode})
        and _nothing_is_wrecked(make, ROOTS, {one.name.lower(): False for one in Mode})
    ),
    "mode-012": _expansion_is_shown,
    "mode-013": lambda make: saved(make(mode="ask")).asked and line(make(), "make").asked,
    "mode-014": _headless,
    "mode-015": _mode_is_the_hosts,
    "mode-016": _child_is_as_strict,
    "mode-017": _root_is_refused,
    "mode-018": _never_without_a_sandbox,
}


def holds(vector: dict[str, Any], make: Make = Rulebook) -> bool:
    """Whether the mode lets pass what it should, and no more."""
    return CHECKS[vector["id"]](make)


class Trusting:
    """The control: a mode that a call may name itself, and one in which everything passes."""

    def __init__(self, _rules: Any = (), *, mode: Mode | str = Mode.OPEN, **_options: Any) -> None:
        self.mode = Mode.of(mode)

    def __call__(self, call: CheckedCall) -> Decision:
        wanted = "open" if "mode" in str(call.args) else self.mode
        loose = wanted == "open" or self.mode >= Mode.EDITS or call.name == bash.spec.name
        return Allow() if loose or "readOnlyHint" in call.spec.input_schema else Ask("?")

    def set_mode(self, mode: Mode | str) -> None:
        self.mode = Mode.of(mode)


def control_caught(vectors: list[dict[str, Any]]) -> int:
    """How many vectors a mode lets pass that trusts what it is told."""
    return sum(not holds(vector, Trusting) for vector in vectors)
