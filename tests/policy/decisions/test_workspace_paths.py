"""Commands that name the workspace, or its programs, by a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail import DESTROY, Access, Ask, Call, CheckedCall, Decision, Spec
from handrail.permissions import Pending
from handrail.policy import Level, RememberedApprovals, Rulebook, RulePaths, builtin_rules, parse

BASH = Spec(name="bash", description="", input_schema={}, effect=DESTROY)
BUILT_IN = builtin_rules("read_only", "development")
ANYTHING = (Access(DESTROY, "*"),)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace that is named by a link too."""
    made = tmp_path / "work"
    (made / "src").mkdir(parents=True)
    (tmp_path / "link").symlink_to(made)
    return made


def policy_of(root: Path, mode: str, rules: str = "") -> Rulebook:
    mine = parse(rules, file="rules.toml", level=Level.USER).rules
    return Rulebook((*BUILT_IN, *mine), mode=mode, sandboxed=True, workspace=root)


def judge(policy: Rulebook, line: str) -> Decision:
    return policy(CheckedCall.recorded(Call("bash", {"command": line}, "1"), BASH, ANYTHING))


def verdicts(policy: Rulebook, *lines: str) -> dict[str, str]:
    return {line: type(judge(policy, line)).__name__ for line in lines}


def test_rules_allow_the_workspace_by_its_absolute_path(root: Path) -> None:
    allowed = [
        f"cd {root} && ls",
        f"cat {root}/src/a.py",
        f"cat {root}//src/./a.py",
        f"wc -l '{root}/a'",
        f"ls {root}",
    ]
    refused = [
        f"cat {root}/../a",
        f"cat {root}s/a",
        f"cat {root.parent}/a",
        f"cat {root}/src/../../a",
        'cat "~/a"',
    ]
    policy = policy_of(root, "plan")

    assert set(verdicts(policy, *allowed).values()) == {"Allow"}
    assert set(verdicts(policy, *refused).values()) == {"Deny"}


def test_a_link_to_the_workspace_is_the_workspace(root: Path) -> None:
    link = root.parent / "link"
    assert verdicts(policy_of(link, "plan"), f"cat {link}/a", f"cat {root}/a") == {
        f"cat {link}/a": "Allow",
        f"cat {root}/a": "Allow",
    }


def test_a_root_folder_as_the_workspace_changes_nothing() -> None:
    assert verdicts(policy_of(Path("/"), "plan"), "cat /etc/x", "ls") == {
        "cat /etc/x": "Deny",
        "ls": "Allow",
    }


def test_secrets_and_safeguards_know_the_absolute_path(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(root.parent))
    asked = [
        f"cat {root}/.env",
        f"echo x > {root}/.git/hooks/a",
        f"rm -r {root}/src",
        "rm -r ~/work/src",
        "rm -r $PWD/src",
        f"git -C {root} reset --hard",
    ]
    runs = [
        f"rm -rf {root}/build",
        "cd ~/work && rm -rf build",
        'rm -r "$PWD/dist"',
        f"PYTHONPATH={root}/src pytest",
        f"ls {root}/.env",
    ]

    assert set(verdicts(policy_of(root, "edits"), *asked).values()) == {"Ask"}
    assert set(verdicts(policy_of(root, "edits"), *runs).values()) == {"Allow"}


def test_a_rule_with_an_absolute_path_holds_for_it(root: Path) -> None:
    rules = (
        f'[[rule]]\ndecide = "deny"\naccess = "read file:{root}/keys/**"\n'
        f'[[rule]]\ndecide = "deny"\ncommand = "{root}/bad.sh"\n'
        f'[[rule]]\ndecide = "allow"\ncommand = "{root}/good.sh"\n'
    )
    assert verdicts(
        policy_of(root, "ask", rules),
        f"cat {root}/keys/a",
        f"{root}/bad.sh",
        f"{root}/good.sh",
        f"{root}/other.sh",
    ) == {
        f"cat {root}/keys/a": "Deny",
        f"{root}/bad.sh": "Deny",
        f"{root}/good.sh": "Allow",
        f"{root}/other.sh": "Ask",
    }


def test_a_deny_holds_for_names_and_an_ask_does_not(root: Path) -> None:
    deny = '[[rule]]\ndecide = "deny"\naccess = "* file:k.pem"\n'
    names = ["ls k.pem", "[ -f k.pem ] && echo yes", "git check-ignore k.pem", "find k.pem"]
    content = [
        "cat k.pem",
        "ls k.pem | xargs cat",
        "cat $(ls k.pem)",
        "git add k.pem",
        "find k.pem -exec cat {} +",
    ]
    policy = policy_of(root, "edits")

    assert set(verdicts(policy, *names).values()) == {"Allow"}
    assert set(verdicts(policy, *content).values()) == {"Ask"}
    assert set(verdicts(policy_of(root, "edits", deny), *names, *content).values()) == {"Deny"}


def test_a_program_of_the_project_is_decided_by_its_name(root: Path) -> None:
    allowed = [
        ".venv/bin/pytest -q",
        "./.venv/bin/python -m pytest",
        f"{root}/.venv/bin/ruff check src",
        "node_modules/.bin/eslint src",
    ]
    asked = [
        ".venv/bin/cat a.py",
        "x/../.venv/bin/pytest",
        "bin/pytest",
        "/opt/venv/bin/pytest",
        ".venv/bin/unknown",
    ]

    assert set(verdicts(policy_of(root, "ask"), *allowed).values()) == {"Allow"}
    assert set(verdicts(policy_of(root, "ask"), *asked).values()) == {"Ask"}
    assert set(verdicts(policy_of(root, "plan"), *allowed, *asked).values()) == {"Deny"}


def test_an_approval_is_remembered_for_both_spellings(root: Path, tmp_path: Path) -> None:
    policy = policy_of(root, "ask")
    memory = RememberedApprovals(policy, RulePaths.of(root, config=tmp_path / "config"))
    line = f"cd {root} && frobnicate {root}/src/a.py"
    ask = judge(policy, line)
    assert isinstance(ask, Ask)
    pending = Pending(
        run_id="", turn_id="", key="q", position=0, round=0, call=Call("bash", {"command": line}, "1"), effect=DESTROY, accesses=ANYTHING,
        question=ask.question, fingerprint="", asked_at=0.0, expires_at=1.0, origin=ask.origin, once=ask.once,
    )  # fmt: skip
    memory.store(memory.propose(pending)[0])

    assert verdicts(policy, line, "frobnicate src/a.py", f"frobnicate {root}/src/b.py") == {
        line: "Allow",
        "frobnicate src/a.py": "Allow",
        f"frobnicate {root}/src/b.py": "Ask",
    }
