"""More lines that rules must not allow, and answers that must count for no other line."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from handrail import Allow, Call, Executor, Toolset
from handrail.approvals import defer
from handrail.permissions import Pending
from handrail.policy import RememberedApprovals, Rulebook, RulePaths, builtin_rules, load
from handrail.tools import Workspace, grep, hide_denied, web_fetch
from vectors.stage import TOOLS, Check, host, line, rules

ME = "-c user.name=n -c user.email=e@example.org"
COMMIT = f"echo KEY=SECRET > a.pem; git add -A; git {ME} commit -qm x; echo x >> a.pem"
SHOWN = (
    "git log -p",
    "git show",
    "git show HEAD",
    "git diff",
    "git stash show -p",
    "git diff-tree -p HEAD",
)
DENY = '[[rule]]\ndecide = "deny"\naccess = "* file:**/*.pem"\n'


def _reading(given: Any, _root: Path, *, judged: bool) -> bool:
    """A mode that changes nothing does not allow it."""
    policy = Rulebook(builtin_rules("read_only"), mode="plan", sandboxed=True)
    command = given["command"].replace("{OUT}", "/srv/out")
    return line(policy if judged else None, command).held


def _developing(given: Any, _root: Path, *, judged: bool) -> bool:
    """The rules for development do not allow it."""
    built_in = builtin_rules("read_only", "development")
    policy = Rulebook(built_in, mode="ask", sandboxed=True)
    command = given["command"].replace("{OUT}", "/srv/out")
    return line(policy if judged else None, command).held


def _own_rules(root: Path, text: str = "") -> Rulebook:
    """What the command line loads, and a rule of the user's own."""
    paths = RulePaths.of(root, config=root.parent / "config")
    if text:
        assert paths.user is not None
        paths.user.parent.mkdir(parents=True)
        paths.user.write_text(text, encoding="utf-8")
    return load(paths, mode="ask", sandboxed=True)


def _recursive(given: Any, root: Path, *, judged: bool) -> bool:
    (root / ".env").write_text("KEY=SECRET\n", encoding="utf-8")
    policy = _own_rules(root)
    usual = line(policy, "grep -rn KEY src").allowed
    return usual and line(policy if judged else None, given["command"]).held


def _searched(given: Any, root: Path, *, judged: bool) -> bool:
    (root / ".env").write_text("KEY=SECRET\n", encoding="utf-8")
    (root / "a.py").write_text("KEY = load()\n", encoding="utf-8")
    policy = _own_rules(root)
    args = {name: value for name, value in given.items() if name != "tool"}
    workspace = Workspace(root, hides=hide_denied(policy) if judged else None)
    executor = Executor(Toolset(grep(workspace)), policy=policy)
    found = executor.run_sync(Call("grep", args)).text
    assert "KEY = load()" in found
    return "SECRET" not in found


def _printed(lines: Sequence[str], given: Any, root: Path, *, judged: bool) -> bool:
    """A file that a rule denies is not shown out of the history, either."""
    host(root, COMMIT)
    policy = _own_rules(root, DENY)
    assert line(policy, "cat a.pem").denied
    outcomes = [line(policy if judged else None, one) for one in {given["command"], *lines}]
    return all(one.held for one in outcomes)


def _fetched(given: Any, _root: Path, *, judged: bool) -> bool:
    policy = Rulebook(builtin_rules("read_only", "development"), mode="edits", sandboxed=True)
    url = given["url"].replace("<what was read>", "SECRET")
    executor = Executor(Toolset(web_fetch()), policy=policy if judged else None)
    decision = executor.explain(Call("web_fetch", {"url": url})).decision
    return decision is not None and not isinstance(decision, Allow)


def _questions(policy: Rulebook, *lines: str) -> list[Pending]:
    calls = [Call("bash", {"command": one}, str(at)) for at, one in enumerate(lines)]
    executor = Executor(TOOLS, policy=policy, approvals=defer)
    results = [executor.run_sync(call) for call in calls]
    return [one.pending for one in results if one.pending is not None]


def _remembered(answered: str, given: Any, root: Path, *, judged: bool) -> bool:
    """A yes that is remembered is for that line; the control remembers the program."""
    policy = Rulebook(builtin_rules("read_only", "development"), sandboxed=True)
    [pending] = _questions(policy, answered)
    if judged:
        memory = RememberedApprovals(policy, RulePaths(remembered=root / "remembered.toml"))
        memory.store(memory.propose(pending)[0])
        assert line(policy, answered).allowed
    else:
        policy.add(_any(answered.split(maxsplit=1)[0]))
    return line(policy, given["command"]).asked


def _merged(given: Any, root: Path, *, judged: bool) -> bool:
    """Rules made of several answers allow what was answered, and not flags of one with operands of another."""
    policy = Rulebook(builtin_rules("read_only", "development"), sandboxed=True)
    answered = ("fmt --check src/a", "fmt --write-all", "fmt out/b")
    pendings = _questions(policy, *answered)
    if judged:
        memory = RememberedApprovals(policy, RulePaths(remembered=root / "remembered.toml"))
        for proposal in memory.propose_all(pendings):
            memory.store(proposal)
        assert all(line(policy, one).allowed for one in answered)
    else:
        policy.add(_any("fmt"))
    return line(policy, given["command"]).asked


def _any(program: str) -> Any:
    [made] = rules(
        f'[[rule]]\ndecide = "allow"\ncommand = "{program}"\nflags = "any"\noperands = "any"\n'
    )
    return made


ANSWERED = {
    "t3-remember-001": "git clean -f ./build",
    "t3-remember-002": "kubectl apply -f ./a.yml",
    "t3-remember-003": "ocaml src/a.ml",
    "t3-remember-004": "sbcl --script src/a.lisp",
    "t3-remember-005": "go run ./src/a.go",
    "t3-remember-006": "psql -f src/a.sql",
    "t3-remember-007": "pandoc --filter src/a src/b",
}
CHECKS: dict[str, Check] = {
    **{f"t2-bash-{number:03}": _reading for number in range(1, 12)},
    **{f"t2-dev-{number:03}": _developing for number in range(1, 15)},
    "t2-mode-001": _fetched,
    "t2-secret-001": _recursive,
    "t2-secret-002": _searched,
    "t2-secret-003": partial(_printed, SHOWN),
    "t2-secret-004": partial(_printed, ()),
    **{name: partial(_remembered, answered) for name, answered in ANSWERED.items()},
    "t3-remember-008": _merged,
}
