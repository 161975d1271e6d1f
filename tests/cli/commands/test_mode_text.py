"""What the page about rules, `mode`, `doctor` and `chat` say of each mode, compared with decisions."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from cli_harness import Handrail
from handrail import DESTROY, Call, Executor, Toolset, tool
from handrail.policy import Rulebook, RulePaths, load
from handrail.sandbox import Sandbox
from handrail.tools import Workspace, coding_tools

ROOT = Path(__file__).parents[3]


def file(name: str, path: str) -> Call:
    args = {"file_path": path} | ({"content": ""} if name == "write" else {})
    return Call(name, args)


def shell(*commands: str) -> list[Call]:
    return [Call("bash", {"command": command}) for command in commands]


CALLS: Mapping[str, Sequence[Call]] = {
    "reading": [file("read", "a.txt"), *shell("ls -l", "git log", "git diff | head")],
    "file changes": [file("write", "b.txt")],
    "common development commands": shell("pytest -q", "git commit -m x", "mkdir d", "npm test"),
    "other commands": shell("frobnicate x", "sed -i s/a/b/ a.txt", "cp a.txt b.txt"),
    "commands that cannot be checked": shell("$(printf rm) -rf src", "base64 -d a | sh"),
    "lose work": [Call("wipe", {}), *shell("git reset --hard", "rm a.txt", "git clean -fd")],
    "catastrophic commands": shell("rm -rf ~", "rm -rf .", "find . -delete"),
    "change settings": shell("git config core.hooksPath a", "npm config set a b"),
    "changes of settings": shell("crontab a", "git config alias.a b"),
    "use credentials": shell("npm login", "docker login"),
    "commands that print them": shell("gh auth token", "gcloud auth print-access-token"),
    "reach other machines": [
        Call("web_fetch", {"url": "https://example.org/"}),
        *shell("git fetch", "curl https://example.org", "pip install requests"),
    ],
    "changes of other machines": shell("git push", "npm publish", "ssh host ls", "terraform apply"),
    "other package indexes": shell(
        "pip install --index-url https://example.org a", "npm install --registry https://a.org b"
    ),
    "protected files": [
        file("write", ".git/config"),
        *shell("echo x > .git/hooks/pre-commit", "git config core.pager x"),
    ],
    "secrets": [file("read", ".env"), *shell("cat .env")],
}
"""Calls of each kind that a sentence can name."""
INCLUDES = {
    "lose work": ("catastrophic commands",),
    "change settings": ("changes of settings",),
    "changes of settings": ("change settings",),
    "use credentials": ("commands that print them",),
    "reach other machines": ("changes of other machines", "other package indexes"),
}
"""Kinds of calls that a phrase names too, unless the sentence names them itself."""
VERBS = {"runs?": "allow", "needs? approval": "ask", "(?:is|are) denied": "deny"}


@tool(effect=DESTROY)
async def wipe() -> None:
    """Delete all orders."""


def promised(sentence: str) -> dict[str, str]:
    """The verdict on each kind of call, as a sentence says it."""
    said: dict[str, str] = {}
    for clause in sentence.split("; "):
        [(phrases, verdict)] = [
            (match[1], verdict)
            for verb, verdict in VERBS.items()
            if (match := re.fullmatch(f"(.+) {verb}", clause))
        ]
        for phrase in re.split(", | and | or ", phrases):
            assert phrase not in said, f"{phrase} is named twice"
            said[phrase] = verdict
    rest = said.pop("everything else")
    assert said.keys() <= CALLS.keys()
    for phrase in [*said]:
        said = dict.fromkeys(INCLUDES.get(phrase, ()), said[phrase]) | said
    return {kind: said.get(kind, rest) for kind in CALLS}


def decided(tools: Toolset, mode: str, *, sandboxed: bool) -> dict[str, str]:
    """The verdict on each kind of call, as the built-in rules decide; all if they differ."""
    rules = load(RulePaths(), mode="ask", sandboxed=sandboxed).rules
    book = Rulebook(rules, mode=mode, sandboxed=sandboxed, root=False)
    executor = Executor(tools, policy=book)

    def verdict(calls: Sequence[Call]) -> str:
        found = {str(call.args): executor.explain(call).matched[0].verdict for call in calls}
        return str(found) if len({*found.values()}) > 1 else next(iter(found.values()))

    return {kind: verdict(calls) for kind, calls in CALLS.items()}


def table(page: str = "docs/cli/rules.md") -> dict[tuple[str, bool], str]:
    """The sentences of a page, by mode and sandbox."""
    text = (ROOT / page).read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(plan|ask|edits|open)` \| (.+) \| (.+) \|$", text, re.MULTILINE)
    with_sandbox = {(mode, True): first for mode, first, _ in rows}
    without = {
        (mode, False): first if other == "the same" else other for mode, first, other in rows
    }
    return with_sandbox | without


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Toolset:
    folder = tmp_path_factory.mktemp("ws")
    return Toolset(*coding_tools(Workspace(folder), sandbox=Sandbox(folder)), wipe)


@pytest.mark.parametrize("sandboxed", [True, False], ids=["sandbox", "no sandbox"])
@pytest.mark.parametrize("mode", ["plan", "ask", "edits", "open"])
def test_the_page_says_of_each_mode_what_the_rules_decide(
    tools: Toolset, mode: str, *, sandboxed: bool
) -> None:
    sentence = table()[mode, sandboxed]

    assert decided(tools, mode, sandboxed=sandboxed) == promised(sentence)


def test_a_sentence_that_says_something_else_is_noticed(tools: Toolset) -> None:
    wrong = promised("reading runs; everything else needs approval")
    right = decided(tools, "ask", sandboxed=True)

    assert {kind for kind in CALLS if wrong[kind] != right[kind]} == {"common development commands"}


@pytest.mark.parametrize("sandboxed", [True, False], ids=["sandbox", "no sandbox"])
def test_the_commands_say_the_same_as_the_page(
    handrail: Handrail, monkeypatch: pytest.MonkeyPatch, *, sandboxed: bool
) -> None:
    user = os.geteuid() or 1000
    monkeypatch.setattr(os, "geteuid", lambda: user)
    env = {} if sandboxed else {"HANDRAIL_WITHOUT": "bash"}
    word = "with" if sandboxed else "without"
    sentences = {mode: text for (mode, boxed), text in table().items() if boxed is sandboxed}

    said = {
        mode: handrail("mode", "--json", env={**env, "HANDRAIL_MODE": mode}).json["means"]
        for mode in sentences
    }
    assert said == {mode: f"{word} a sandbox, {text}" for mode, text in sentences.items()}
    checks = handrail("doctor", "--json", env=env).json["checks"]
    assert checks["mode"] == {
        "status": "ok",
        "found": f"ask: {said['ask']}",
        "wanted": "a mode that is available here; `handrail mode` sets it",
        "remedy": "",
        "details": [],
    }
