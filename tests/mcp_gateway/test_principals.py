"""Rules and limits for each principal, the health of a gateway, and two of them at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp_types import ElicitResult

from handrail import READ, Access, Call, CheckedCall, Deny, Executor, Spec
from handrail.approvals import FileLedger
from handrail.mcp.gateway import CallQuota, RulesByPrincipal, limit_principals, with_health
from handrail.permissions import Approvals
from handrail.policy import Rulebook
from mcp_gateway.gateways import gateway, names_of, sources, until
from mcp_served.served import (
    MODERN,
    Notes,
    answering,
    connect,
    executor,
    over_http,
    policy,
    text_of,
)

pytestmark = pytest.mark.anyio
COMMON = '[[rule]]\ndecide = "deny"\ntools = "drop_*"\n'
OWN = COMMON + '[[rule]]\ndecide = "deny"\ntools = "read_note"\n'
ALLOW = '[[rule]]\ndecide = "allow"\ntools = "add_note"\n'
SPEC = Spec(name="read_note", description="", input_schema={}, effect=READ)


def rules() -> RulesByPrincipal:
    return RulesByPrincipal(
        Rulebook.from_toml(COMMON), {"bob": Rulebook.from_toml(OWN, file="bob.toml")}
    )


async def test_each_principal_has_its_rules() -> None:
    async with over_http(executor(Notes(), policy=rules())) as url:
        async with connect(url, "t-alice") as client:
            alice = await client.call_tool("read_note", {})
        async with connect(url, "t-bob") as client:
            bob = await client.call_tool("read_note", {})

    assert (text_of(alice), bob.is_error) == ("a: ", True)
    assert "rule 'deny read_note' denies" in text_of(bob)


async def test_rules_about_sources_are_each_principals_own() -> None:
    both = RulesByPrincipal(
        Rulebook.from_toml(ALLOW), {"bob": Rulebook.from_toml(ALLOW, sources=True)}
    )
    async with over_http(executor(Notes(), policy=both)) as url:
        async with connect(url, "t-alice") as client:
            alice = await client.call_tool("add_note", {"key": "z", "text": "See evil.example"})
        async with connect(url, "t-bob") as client:
            bob = await client.call_tool("add_note", {"key": "z", "text": "See evil.example"})

    assert [alice.is_error, bob.is_error] == [False, True]


async def test_a_principal_does_not_see_tools_that_only_others_may_call() -> None:
    both = rules()
    async with over_http(executor(Notes(), policy=both), rules_of=both.find) as url:
        async with connect(url, "t-alice") as client:
            alice = await names_of(client)
            read = await client.call_tool("read_note", {})
        async with connect(url, "t-bob") as client:
            bob = await names_of(client)
            refused = await client.call_tool("read_notes", {})
            again = await client.call_tool("read_note", {})

    rest = ["add_note", "break_down", "show_parts", "wait_here"]
    assert (alice, bob) == ([*rest[:2], "read_note", *rest[2:]], rest)
    assert text_of(read) == "a: "
    assert [one.is_error for one in (refused, again)] == [True, True]
    assert [text_of(refused), text_of(again)] == [
        "There is no tool 'read_notes'. Available tools: add_note, break_down, show_parts, wait_here.",
        "There is no tool 'read_note'. Did you mean add_note?",
    ]


@pytest.mark.parametrize(
    ("denied", "spaces"),
    [("mcp__a__*", (False, True)), ("mcp__*", (False, False)), ("nothing", (True, True))],
)
async def test_a_search_finds_and_names_only_what_its_principal_may_call(
    denied: str, spaces: tuple[bool, bool]
) -> None:
    """Bob's rules deny a server, all of them, and none."""
    own = Rulebook.from_toml(f'[[rule]]\ndecide = "deny"\ntools = "{denied}"\n')
    both = RulesByPrincipal(Rulebook.from_toml(""), {"bob": own})
    async with gateway(sources("a", "b"), defer_over=0, policy=both) as (upstreams, made):
        await until(lambda: upstreams.is_ready)
        async with over_http(made, rules_of=both.find) as url:
            shown = dict[str, str]()
            for name in ("alice", "bob"):
                async with connect(url, f"t-{name}") as client:
                    listed = (await client.list_tools()).tools
                    described = "".join(one.description or "" for one in listed)
                    if "search_tools" in [one.name for one in listed]:
                        found = await client.call_tool("search_tools", {"queries": ["get echo"]})
                        described += text_of(found)
                    shown[name] = described

    seen = {name: ("mcp__a" in text, "mcp__b" in text) for name, text in shown.items()}
    assert seen == {"alice": (True, True), "bob": spaces}


async def test_what_rules_of_principals_foresee_and_explain() -> None:
    both, spec = rules(), SPEC
    dropped = Spec(name="drop_it", description="", input_schema={}, effect=READ)
    everything = (Access("read", "*"),)
    made = Executor(Notes().tools(), policy=both)
    turn = made.turn(principal="bob")
    call = Call("read_note", {}, id="1")
    denied = made.explain(call, turn=turn).decision

    assert [both.denies_all(one, everything) for one in (spec, dropped)] == [False, True]
    assert both.asks_always(spec, everything) is False
    assert isinstance(denied, Deny)
    assert denied.origin is not None
    assert denied.origin.file == "bob.toml"
    [common] = both.explain(CheckedCall.recorded(call, spec, everything))
    assert made.explain(call).matched == (common,)
    common_version, own_version = (Rulebook.from_toml(text).version for text in (COMMON, OWN))
    assert both.version == f"{common_version}/{own_version}"
    assert {name: rule.file for name, rule in both.named_tools.items()} == {"read_note": "bob.toml"}


async def test_each_principal_has_its_limits() -> None:
    now = [0.0]
    quotas = {"alice": CallQuota(calls=2, seconds=10)}
    hook = limit_principals(quotas, clock=lambda: now[0])
    async with executor(Notes(), hooks=[hook]) as made:

        async def run(principal: str | None) -> str:
            call = Call("read_note", {}, id=f"{principal}{now}")
            return (await made.run(call, turn=made.turn(principal=principal))).text

        first = [await run("alice") for _ in range(3)]
        others = [await run(principal) for principal in ("bob", None) for _ in range(3)]
        now[0] = 10.0
        later = await run("alice")

    refusal = (
        "Not run: you are limited to 2 calls in 10 s. Retry in 10.0 s, and continue with other "
        "work until then."
    )
    assert (first, others, later) == (["a: ", "a: ", refusal], ["a: "] * 6, "a: ")
    for wrong in ({"calls": 0}, {"seconds": 0}, {"running": 0}):
        with pytest.raises(ValueError, match="must be greater than 0"):
            CallQuota(**wrong)


async def test_calls_at_a_time_are_limited() -> None:
    notes = Notes()
    hook = limit_principals({"alice": CallQuota(running=1)})
    async with executor(notes, hooks=[hook]) as made:
        turn = made.turn(principal="alice")
        turn.add(Call("wait_here", {}, id="1"))
        with anyio.fail_after(30):
            await notes.open.wait()
            refused = await made.run(Call("read_note", {}, id="2"), turn=turn)
            notes.go.set()
            await turn.result("1")
            fine = await made.run(Call("read_note", {}, id="3"), turn=turn)
            unknown = await made.run(Call("nothing", {}, id="4"), turn=turn)

    assert (refused.text, fine.text) == (
        "Not run: you are limited to 1 call at a time. Call again when one has ended.",
        "a: ",
    )
    assert unknown.failure is not None


async def test_health_needs_no_token_and_shows_nothing() -> None:
    ready = [False]
    around = lambda app: with_health(app, lambda: ready[0])  # noqa: E731  one line
    async with over_http(executor(Notes()), around=around) as url, httpx2.AsyncClient() as http:
        base = url.removesuffix("/mcp")

        async def get(path: str) -> tuple[int, str]:
            response = await http.get(f"{base}{path}", timeout=30)
            return response.status_code, response.text

        alive, not_yet = await get("/healthz"), await get("/readyz")
        ready[0] = True
        assert (alive, not_yet, await get("/readyz")) == (
            (200, "alive"),
            (503, "not ready"),
            (200, "ready"),
        )
        assert (await get("/mcp"))[0] == 401


async def test_two_stateless_gateways_share_a_question(tmp_path: Path) -> None:
    """Requests alternate. One asks, the other takes the answer, and it works only once."""
    key, notes = b"k" * 32, [Notes(), Notes()]
    yes = {"approval": ElicitResult(action="accept")}
    ledgers = [Approvals(ledger=FileLedger(tmp_path / "ledger")) for _ in notes]
    one, two = (
        Executor(note.tools(), policy=policy, approvals=ledger)
        for note, ledger in zip(notes, ledgers, strict=True)
    )
    ask: Any = {"mode": MODERN, "elicitation_callback": answering("accept")}
    async with over_http(one, keys=[key]) as first, over_http(two, keys=[key]) as second:
        async with connect(first, **ask) as a, connect(second, **ask) as b:
            call = {"name": "add_note", "arguments": {"text": "x"}}
            asked: Any = await a.session.call_tool(**call, allow_input_required=True)
            read = [text_of(await client.call_tool("read_note", {"key": "b"})) for client in (b, a)]
            answer: Any = {"request_state": asked.request_state, "input_responses": yes}
            done: Any = await b.session.call_tool(**call, **answer)
            replayed: Any = await a.session.call_tool(**call, **answer, allow_input_required=True)
        async with connect(second, "t-bob", **ask) as thief:
            with pytest.raises(Exception, match="Invalid or expired requestState"):
                await thief.session.call_tool(**call, **answer)

    assert (asked.result_type, read) == ("input_required", ["b: ", "b: "])
    assert (done.structured_content, [note.said for note in notes]) == ({"count": 1}, [[], ["x"]])
    assert replayed.result_type == "input_required" or replayed.is_error
