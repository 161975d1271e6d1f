"""Hosts that a question opens: for one command, for this run, or until they are forgotten."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail import Allow, Call, Deny, Executor, Toolset
from handrail.approvals import render_request
from handrail.net import Guard, Proxy
from handrail.permissions import Answer, Pending
from handrail.policy import RememberedApprovals, Rulebook, RulePaths, builtin_rules
from handrail.sandbox import Sandbox
from handrail.tools import Jobs, bash, read_job
from net.web_stage import PUBLIC, Site, reply
from tools.shell.stage import timeless

pytestmark = pytest.mark.anyio

CURL = "curl -sS http://pub.test/"
HIDDEN = "sh fetch.sh"
"""A command whose text does not say what it reaches."""
CLOSED = """\
handrail: 'pub.test' is not an allowed host.
[No access to pub.test. Call again, with hosts ["pub.test"].]
[exit code 0, N s]"""
OPEN = "hello\n[exit code 0, N s]"


class Stage:
    """A sandbox whose hosts are on the loopback, and a person who answers."""

    def __init__(self, folder: Path, site: Site, mode: str = "edits", rules: str = "") -> None:
        root = folder / "ws"
        root.mkdir(parents=True)
        self.root = root
        (root / "fetch.sh").write_text(f"{CURL}\n", encoding="utf-8")
        self.proxy = Proxy(
            [],
            directory=folder / "p",
            guard=Guard(resolver=lambda *_: [PUBLIC]),
            connect=lambda *_: socket.create_connection(("127.0.0.1", site.port)),
        )
        self.book = Rulebook.from_toml(rules, mode=mode, sandboxed=True)
        for rule in builtin_rules("read_only", "development"):
            self.book.add(rule)
        self.memory = RememberedApprovals(self.book, RulePaths(user=folder / "rules.toml"))
        sandbox = Sandbox(root, network=self.proxy, opened=self.book.find_hosts)
        self.jobs = Jobs()
        self.tools = Toolset(bash(sandbox, jobs=self.jobs), read_job(self.jobs))
        self.asked: list[Pending] = []
        self.scope = "once"
        self.answer: Answer = Allow()

    async def approve(self, pending: Pending) -> Answer:
        self.asked.append(pending)
        for proposal in self.memory.propose(pending):
            if proposal.scope == self.scope:
                self.memory.store(proposal)
                break
        return self.answer

    async def run(self, command: str, **args: Any) -> str:
        """What the model reads about one call."""
        executor = Executor(self.tools, policy=self.book, approvals=self.approve)
        async with executor:
            result = await executor.run(Call("bash", {"command": command, **args}, "c1"))
        return timeless(result.text)

    @property
    def questions(self) -> list[str]:
        return [pending.question for pending in self.asked]


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site({"*": reply(b"hello\n")})
    yield made
    made.close()


@pytest.fixture
def stage(tmp_path: Path, site: Site) -> Iterator[Stage]:
    made = Stage(tmp_path, site)
    yield made
    made.proxy.close()


async def test_a_host_that_was_approved_once_is_open_for_that_command_only(stage: Stage) -> None:
    assert [
        await stage.run(HIDDEN),
        await stage.run(HIDDEN, hosts=["PUB.test"]),
        await stage.run(HIDDEN),
    ] == [CLOSED, OPEN, CLOSED]
    reason = "no rule lets commands reach pub.test"
    assert stage.questions == [
        f"Allow this command, and let it reach pub.test? `{HIDDEN}` ({reason})"
    ]


async def test_a_host_that_the_command_names_is_part_of_its_own_question(stage: Stage) -> None:
    assert await stage.run(CURL) == OPEN
    stage.answer = Deny.by_user()
    assert (await stage.run(CURL)).startswith("Not run: the user denied this call.")
    reason = f"it reaches another machine, or installs code from one: `{CURL}`"
    question = f"Allow this command, and let it reach pub.test? `{CURL}` ({reason})"
    assert stage.questions == [question] * 2
    assert [line.text for line in render_request(stage.asked[0]).lines][:4] == [
        f"│ Run: {CURL}",
        "bash wants to run (destroy; call c1)",
        "  destroy *",
        "  read net:pub.test",
    ]


@pytest.mark.parametrize("mode", ["open", "edits"])
async def test_no_mode_opens_a_host_without_a_question(
    tmp_path: Path, site: Site, mode: str
) -> None:
    stage = Stage(tmp_path, site, mode)
    stage.book.set_mode(mode)
    line = CURL if mode == "open" else HIDDEN

    assert await stage.run(line) == CLOSED
    assert stage.questions == []
    assert await stage.run(line, hosts=["pub.test"]) == OPEN
    assert len(stage.questions) == 1
    stage.proxy.close()


async def test_an_approval_for_this_run_opens_the_host_to_all_commands(stage: Stage) -> None:
    stage.scope = "run"

    assert await stage.run("true", hosts=["pub.test"]) == "(no output)\n[exit code 0, N s]"
    stage.scope, stage.answer = "once", Deny("no")
    assert await stage.run(HIDDEN) == OPEN
    assert await stage.run(HIDDEN, hosts=["pub.test"]) == OPEN
    assert await stage.run(HIDDEN, hosts=["pub.test", "other.test"]) == "no"
    [rule] = stage.memory.remembered()
    assert rule.text.splitlines()[2:5] == [
        'decide = "allow"',
        'tools = ["bash"]',
        'access = ["write net:pub.test/**"]',
    ]

    stage.memory.forget(rule.id)

    assert await stage.run(HIDDEN) == CLOSED


async def test_a_remembered_command_keeps_its_hosts(stage: Stage) -> None:
    stage.scope = "always"

    assert [await stage.run(CURL), await stage.run(CURL)] == [OPEN, OPEN]
    assert len(stage.questions) == 1
    assert stage.memory.propose(stage.asked[0])[0].width == "pub.test for all commands"
    stage.memory.forget(stage.memory.remembered()[0].id)
    assert stage.memory.propose(stage.asked[0])[0].width == (
        "this command, word for word, and pub.test for all commands"
    )
    assert stage.memory.propose_all(stage.asked) == ()


async def test_a_job_reaches_its_hosts(stage: Stage) -> None:
    executor = Executor(stage.tools, policy=stage.book, approvals=stage.approve)
    async with executor:
        await executor.run(Call("bash", {"command": CURL, "background": True}, "c1"))
        await executor.run(Call("read_job", {"job": 1, "wait_ms": 60_000}, "c2"))
        read = await executor.run(Call("read_job", {"job": 1, "since": 0}, "c3"))

    assert read.text.splitlines()[0] == "hello"
    assert [str(access) for access in stage.asked[0].accesses] == ["destroy *", "read net:pub.test"]


REFUSED = {
    "localhost": "Not run: 'localhost' is not on the public internet",
    "127.0.0.1": "Not run: '127.0.0.1' is not on the public internet",
    "10.0.0.1": "Not run: '10.0.0.1' is not on the public internet",
    "[::1]": "Not run: '::1' is not on the public internet",
    "metadata.google.internal": "Not run: 'metadata.google.internal' is not on the public",
    "127.1": "Not run: '127.1' is not an address",
    "*.test": "Not run: '*' cannot be part of a host name.",
    "http://pub.test": "Not run: 'http://pub' cannot be part of a host name.",
    "pub.test:8080": "Not run: 'test:8080' cannot be part of a host name.",
    "pub.test.": "Not run: 'pub.test.' is not a host name",
    "p\u2024test.org": "Not run: 'p\\u2024test' is ambiguous in a host name.",
}


async def test_a_host_that_cannot_be_opened_is_refused_before_any_question(stage: Stage) -> None:
    texts = {host: await stage.run("true", hosts=[host]) for host in REFUSED}

    assert {host: texts[host][: len(says)] for host, says in REFUSED.items()} == REFUSED
    assert stage.questions == []


async def test_look_alike_letters_are_shown_in_the_form_that_is_reached(stage: Stage) -> None:
    await stage.run("true", hosts=["\u0440ub.test"])

    shown = [line.text for line in render_request(stage.asked[0], width=200).lines]
    host = "xn--ub-kmc.test"
    reason = f"no rule lets commands reach {host}"
    assert shown[3:5] == [
        f"  write net:{host}",
        f"question: Allow this command, and let it reach {host}? `true` ({reason})",
    ]
    assert shown[-1] == "words with mixed scripts or look-alike letters: \\u{440}ub"


async def test_a_call_can_ask_for_a_few_hosts(stage: Stage) -> None:
    many = [f"h{number}.test" for number in range(21)]

    assert await stage.run("true", hosts=many) == "Not run: pass at most 20 hosts, got 21."
    assert (await stage.run("true", hosts=5)).startswith("Not run: invalid arguments.")
    assert await stage.run("true", hosts=many[:2]) == "(no output)\n[exit code 0, N s]"
    assert "let it reach h0.test and h1.test?" in stage.questions[-1]


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ('decide = "deny"\naccess = "* net:pub.test/**"', "Not run: rule"),
        ('decide = "deny"\naccess = "write net:*.test/**"', "Not run: rule"),
        ('decide = "ask"\naccess = "write net:**"', "hello"),
        ('decide = "allow"\naccess = "write net:*.test/**"', "hello"),
        ('decide = "allow"\naccess = "read net:pub.test/**"', "hello"),
        ('decide = "allow"\ntools = ["bash"]', "hello"),
        ('decide = "allow"\naccess = "* *"', "hello"),
    ],
)
async def test_rules_decide_about_hosts(tmp_path: Path, site: Site, rule: str, says: str) -> None:
    stage = Stage(tmp_path, site, rules=f'[[rule]]\nid = "r"\n{rule}\n')

    assert (await stage.run(HIDDEN, hosts=["pub.test"])).startswith(says)
    is_open = "allow" in rule and "*.test" in rule
    assert len(stage.questions) == (0 if is_open or "deny" in rule else 1)
    assert stage.book.find_hosts() == []
    stage.proxy.close()


GUESSES = {
    "curl -sS http://pub.test/a https://other.test:443/b": ["pub.test", "other.test"],
    "wget -q --referer=https://third.test/ https://pub.test/x": ["third.test", "pub.test"],
    "curl https://pub.test@other.test/": [],
    "curl https://pub.test\\@other.test/": [],
    "curl http://localhost:8000/ http://127.0.0.1/ http://pub.test/": ["pub.test"],
    "curl https://[2606:4700::6810:84e5]/": ["[2606:4700::6810:84e5]"],
    "curl $URL": [],
    "echo https://pub.test/ > note": [],
    "git commit -m https://pub.test/": [],
    "git clone https://pub.test/a.git": ["pub.test"],
    "git -C sub fetch": ["remote.test"],
    "git status": [],
    "python3 -m pip install x": ["pypi.org", "files.pythonhosted.org"],
    "pip install -i https://pub.test/simple x": ["pypi.org", "files.pythonhosted.org", "pub.test"],
    "pip list": [],
    "cd web && npm ci": ["registry.npmjs.org"],
    "npx cowsay": ["registry.npmjs.org"],
    "npm test": [],
    "cargo add serde": ["index.crates.io", "static.crates.io"],
    "echo 'unclosed": [],
}


def test_the_hosts_of_known_programs_are_part_of_the_request(stage: Stage) -> None:
    (stage.root / ".git").mkdir()
    (stage.root / ".git/config").write_text(
        '[remote "origin"]\n\turl = https://remote.test/a.git\n'
        '[remote "ssh"]\n\turl = git@ssh.test:a.git\n',
        encoding="utf-8",
    )
    executor = Executor(stage.tools, policy=stage.book)

    def touched(command: str) -> list[str]:
        accesses = executor.explain(Call("bash", {"command": command}, "c1")).accesses
        return [str(access).removeprefix("read net:") for access in accesses]

    assert {command: touched(command) for command in GUESSES} == {
        command: ["destroy *", *hosts] for command, hosts in GUESSES.items()
    }


def test_a_command_without_a_repository_has_no_remotes(stage: Stage) -> None:
    explained = Executor(stage.tools).explain(Call("bash", {"command": "git fetch"}, "c1"))

    assert [str(access) for access in explained.accesses] == ["destroy *"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"command": CURL}, '[No access to pub.test. Call again, with hosts ["pub.test"].]'),
        (
            {"command": "echo EAI_AGAIN; exit 1"},
            "[No network access. Call again, with the hosts that it needs in hosts.]",
        ),
        (
            {"command": "echo No matching distribution found; exit 1", "hosts": ["pub.test"]},
            "[The command can reach pub.test. Check the name, and whether the host answers.]",
        ),
        (
            {"command": "curl -sS https://third.test/", "hosts": ["pub.test"]},
            '[No access to third.test. Call again, with hosts ["pub.test", "third.test"].]',
        ),
        (
            {"command": "curl -s https://third.test/; true", "hosts": ["pub.test"]},
            '[No access to third.test. Call again, with hosts ["pub.test", "third.test"].]',
        ),
        (
            {"command": "curl -s https://third.test/ || true", "hosts": ["pub.test"]},
            '[No access to third.test. Call again, with hosts ["pub.test", "third.test"].]',
        ),
        (
            {"command": "curl -sS http://localhost:8000/", "hosts": ["pub.test"]},
            "[A command with hosts has its own localhost. Call the server without hosts.]",
        ),
    ],
)
async def test_a_result_names_the_hosts_that_are_closed(
    tmp_path: Path, args: dict[str, Any], says: str
) -> None:
    tools = Toolset(bash(Sandbox(tmp_path, opened=list)))
    async with Executor(tools) as executor:
        result = await executor.run(Call("bash", args, "c1"))

    assert result.text.splitlines()[1].startswith(says) or result.text.splitlines()[-2] == says


def test_a_sandbox_that_opens_no_hosts_has_no_argument_for_them(tmp_path: Path) -> None:
    opens = bash(Sandbox(tmp_path, opened=list)).spec
    others = [
        bash(Sandbox(tmp_path)).spec,
        bash(Sandbox(tmp_path, tier="landlock", opened=list)).spec,
    ]

    assert opens.input_schema["properties"].keys() == {"command", "restart", "timeout_ms", "hosts"}
    assert opens.input_schema["properties"]["hosts"] == {
        "type": "array",
        "description": 'Hosts that the command must reach, such as "pypi.org". The user may be '
        "asked.",
        "items": {"type": "string"},
        "default": [],
    }
    assert " Name other hosts that a command needs in hosts. " in opens.description
    for spec in others:
        assert spec.input_schema["properties"].keys() == {"command", "restart", "timeout_ms"}
        assert "hosts" not in spec.description
