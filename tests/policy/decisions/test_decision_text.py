"""The text of decisions: the questions that people read, and the reasons that models read."""

from __future__ import annotations

import pytest

from handrail import DESTROY, READ, WRITE, Access, Allow, Call, CheckedCall, Deny, Spec
from handrail.policy import Rulebook, RulePaths, load

BASH = Spec(name="bash", description="", input_schema={}, effect=DESTROY)


def text(book: Rulebook, *accesses: Access, tool: str = "save") -> str:
    """The question or the reason of a decision on a call that touches these."""
    spec = Spec(name=tool, description="", input_schema={}, effect=WRITE)
    return _text(book, Call(tool, {}, "1"), spec, accesses)


def command_text(book: Rulebook, command: str, spec: Spec = BASH) -> str:
    """The question or the reason of a decision on a shell command."""
    call = Call(spec.name, {"command": command}, "1")
    return _text(book, call, spec, (Access(DESTROY, "*"),))


def _text(book: Rulebook, call: Call, spec: Spec, accesses: tuple[Access, ...]) -> str:
    decision = book(CheckedCall.recorded(call, spec, accesses))
    assert not isinstance(decision, Allow)
    return decision.reason if isinstance(decision, Deny) else decision.question


READ_Z, WRITE_Z = Access(READ, "file:z.py"), Access(WRITE, "file:z.py")


@pytest.mark.parametrize(
    ("accesses", "action"),
    [
        ([READ_Z, WRITE_Z], "change z.py"),
        ([WRITE_Z, READ_Z], "change z.py"),
        ([Access(DESTROY, "file:z.py")], "delete z.py"),
        ([WRITE_Z, Access(WRITE, "file:b c.py")], "change z.py and 'b c.py'"),
        (
            [Access(READ, "file:a"), WRITE_Z, Access(DESTROY, "file:b"), Access(WRITE, "file:c")],
            "delete b, change z.py and c, and read a",
        ),
        ([Access(WRITE, "file:")], "change the workspace"),
        ([Access(WRITE, "file:/etc/x"), Access(WRITE, "file:../y")], "change /etc/x and ../y"),
        ([Access(WRITE, "*")], "make changes"),
        ([Access(DESTROY, "*")], "make changes that cannot be undone"),
        ([WRITE_Z, Access(READ, "*")], "make changes"),
        ([Access(WRITE, "order:o1")], "change order:o1"),
        ([Access(WRITE, "net:example.org:443")], "send data to example.org"),
        ([Access(WRITE, "net:example.org:8080")], "send data to example.org:8080"),
        ([Access(WRITE, "net:"), Access(READ, "net:a.b")], "send data to any host and fetch from a.b"),
        ([Access(DESTROY, "net:a.b")], "delete data on a.b"),
        ([], "run"),
        (
            [Access(WRITE, f"file:{n}") for n in range(7)],
            "change 0, 1, 2, 3, 4 and 2 more",
        ),
    ],
)  # fmt: skip
def test_a_question_says_what_a_call_does_the_worst_first(
    accesses: list[Access], action: str
) -> None:
    assert text(Rulebook(), *accesses) == f"Allow `save` to {action}?"


def test_a_question_that_a_rule_asks_says_why() -> None:
    book = Rulebook.from_toml(
        """
        [[rule]]
        id = "secrets"
        decide = "ask"
        reason = "it may hold secrets"
        access = "* file:**/.env"

        [[rule]]
        id = "plain"
        decide = "ask"
        access = "* file:plain"

        [[rule]]
        id = "whole tool"
        decide = "ask"
        tools = "send"
        """
    )
    read_env, read_plain = Access(READ, "file:.env"), Access(READ, "file:plain")

    assert text(book, read_env) == "Allow `save` to read .env? (it may hold secrets)"
    assert text(book, WRITE_Z, read_env) == (
        "Allow `save` to change z.py and read .env? (reading .env: it may hold secrets)"
    )
    assert text(book, read_plain) == "Allow `save` to read plain? (rule 'plain' asks)"
    assert text(book, WRITE_Z, read_plain) == (
        "Allow `save` to change z.py and read plain? (reading plain: rule 'plain' asks)"
    )
    assert text(book, WRITE_Z, tool="send") == "Allow `send` to change z.py?"


DENIES = Rulebook.from_toml(
    """
    [[rule]]
    id = "keys"
    decide = "deny"
    reason = "keys are not for models"
    access = "read file:k.pem"

    [[rule]]
    id = "net"
    decide = "deny"
    access = "* net:evil.test/**"

    [[rule]]
    id = "push"
    decide = "deny"
    command = "git push"

    [[rule]]
    id = "drop"
    decide = "deny"
    tools = "drop"

    [[rule]]
    id = "old shell"
    decide = "deny"
    reason = "use bash"
    tools = "zsh"
    command = "*"
    """
)
ZSH = Spec(name="zsh", description="", input_schema={}, effect=DESTROY, tags=frozenset({"shell"}))


def test_a_denial_names_the_rule_what_it_denies_and_why() -> None:
    assert text(DENIES, Access(READ, "file:k.pem")) == (
        "rule 'keys' denies reading k.pem (keys are not for models)"
    )
    assert text(DENIES, Access(READ, "net:evil.test:443")) == (
        "rule 'net' denies fetching from evil.test"
    )
    assert text(DENIES, tool="drop") == "rule 'drop' denies this call"
    assert command_text(DENIES, "cd a && git push -f") == "rule 'push' denies `git push`"
    assert command_text(DENIES, "ls", ZSH) == "rule 'old shell' denies every command (use bash)"


def test_what_may_include_something_denied_is_asked() -> None:
    whole = Access(READ, "file:")
    book = Rulebook.from_toml(
        """
        [[rule]]
        decide = "allow"
        command = "grep"
        flags = ["-r"]
        operands = ["text", "path*"]
        read_only = true
        recursive = ["-r"]

        [[rule]]
        id = "keys"
        decide = "deny"
        access = "read file:src/k.pem"
        """
    )

    assert text(DENIES, whole) == (
        "Allow `save` to read the workspace? (reading the workspace may include what rule 'keys' "
        "denies: keys are not for models)"
    )
    assert command_text(book, "grep -r x src") == (
        "Allow this command? `grep -r x src` (reading everything below src may include what rule "
        "'keys' denies)"
    )


def test_a_mode_and_the_safeguards_say_why() -> None:
    plan = Rulebook(mode="plan")
    private = load(RulePaths(), private=["/home/me/.config/handrail"])

    assert text(plan, WRITE_Z) == "plan mode allows no changes"
    assert text(private, Access(READ, "file:/home/me/.config/handrail/trust.json")) == (
        "reading /home/me/.config/handrail/trust.json is never allowed"
    )
    assert text(Rulebook(), Access(WRITE, "file:conftest.py")) == (
        "Allow `save` to change conftest.py? (conftest.py is protected: pytest runs it)"
    )
    assert text(Rulebook(protected=["x"]), Access(WRITE, "file:x/y")) == (
        "Allow `save` to change x/y? (x/y is protected: your application protects it)"
    )


@pytest.mark.parametrize(
    ("command", "question"),
    [
        ("make", "Allow this command? `make`"),
        (
            "make all && rm -rf build",
            "Allow this command? `make all && rm -rf build` (no rule allows `rm -rf build`)",
        ),
        (
            "make $X",
            "Allow this command? `make $X` (it is not a simple command, so only a rule about the whole line can allow it)",
        ),
        ("make\nmake", "Allow this command? 'make\\nmake' (no rule allows `make`)"),
        (
            "echo `x`",
            "Allow this command? 'echo `x`' (it is not a simple command, so only a rule about the whole line can allow it)",
        ),
        ("rm -rf ~", "Allow this command? `rm -rf ~` (rm would delete all of ~)"),
        ("npm publish", "Allow this command? `npm publish` (others see it)"),
        ("make all && npm publish", "Allow this command? `make all && npm publish` (`npm publish`: others see it)"),
        (f"make {'x' * 1_000}", "Allow this command of 1,005 characters?"),
    ],
)  # fmt: skip
def test_a_question_about_a_command_shows_it(command: str, question: str) -> None:
    book = Rulebook.from_toml(
        """
        [[rule]]
        decide = "allow"
        command = "make all"

        [[rule]]
        id = "publish"
        decide = "ask"
        reason = "others see it"
        command = "npm publish"
        """
    )

    assert command_text(book, command) == question


def test_a_question_names_a_shell_tool_with_another_name() -> None:
    assert command_text(Rulebook(), "make", ZSH) == "Allow `zsh` to run this command? `make`"


def test_without_a_sandbox_a_permissive_mode_says_why_it_asks() -> None:
    book = Rulebook(mode="edits")

    assert command_text(book, "make") == (
        "Allow this command? `make` (commands do not run in a sandbox)"
    )
