"""Consequences in other spellings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from handrail.policy import Rulebook, builtin_rules
from vectors.stage import Check, host, line

ME = "-c user.name=n -c user.email=e@example.org"
FILES = "mkdir -p src notes core && echo x | tee src/a.py notes/a.md core/a.py scratch.txt"
COMMIT = f"{FILES} && git add src core notes && git {ME} commit -qm x && echo y >> src/a.py"


def _policy(root: Path, mode: str, **options: Any) -> Rulebook:
    built_in = builtin_rules("read_only", "development")
    return Rulebook(built_in, mode=mode, sandboxed=True, workspace=root, **options)


def _loses_work(given: Any, root: Path, *, judged: bool) -> bool:
    """What loses work asks in ``edits``, in a repository with uncommitted changes."""
    host(root, COMMIT)
    policy = _policy(root, "edits") if judged else None
    return (
        line(_policy(root, "edits"), "git status").allowed and line(policy, given["command"]).asked
    )


def _leaves(given: Any, root: Path, *, judged: bool) -> bool:
    """What changes other machines or settings asks in ``edits`` and, but for two, in ``open``."""
    modes = (
        ["edits"]
        if given["command"].startswith(("poetry", "kubectl config", "pip"))
        else ["edits", "open"]
    )
    return all(
        line(_policy(root, mode) if judged else None, given["command"]).asked for mode in modes
    )


def _shows_secrets(given: Any, root: Path, *, judged: bool) -> bool:
    """A pattern that may be the name of a secret asks as the name does, hidden or not."""
    (root / ".env").write_text("KEY=SECRET\n", encoding="utf-8")
    (root / "a.txt").write_text("x\n", encoding="utf-8")
    policy = _policy(root, "edits")
    usual = line(policy, "cat a.t*").allowed and line(policy, "ls .e*").allowed
    asked = [
        line(policy if judged else None, one).asked for one in (given["command"], *given["more"])
    ]
    return usual and all(asked)


CHECKS: dict[str, Check] = {
    **{f"t4-policy-{number:03}": _loses_work for number in range(1, 18)},
    **{f"t4-policy-{number:03}": _leaves for number in range(101, 118)},
    "t4-policy-201": _shows_secrets,
}
