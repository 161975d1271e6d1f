"""deploy/postgres-rls.sql on a real server: a role sees the runs of one tenant, and no others."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, LiteralString, cast

import psycopg
import pytest
from psycopg import sql

from handrail import WRITE, Access, Allow, Ask, Call, CheckedCall, Decision, Text, tool
from handrail.agent import Agent
from handrail.messages import Prompt, Reply, Request, ToolResults
from handrail.permissions import Approvers, Origin
from handrail.runs import Claimant, JournalLine, open_runs, verify
from handrail.runs._live.pieces import Piece, add_pieces, dump
from handrail.runs.durable import DurableRuns
from handrail.runs.journal import JournalError
from handrail.web._files import KeptFile, keep_file
from handrail.web.conversations import Conversations

FILE = Path(__file__).parents[3] / "deploy" / "postgres-rls.sql"
READER, WORKER = "acme_reader", "shop_worker"
SHARED = {"handrail_schema"}
"""Tables without rows of a tenant, which everyone reads."""
HIDDEN = {"handrail_approval", "handrail_file", "handrail_worker"}
HIDDEN |= {"handrail_budget", "handrail_budget_part", "handrail_reservation"}
HIDDEN |= {"handrail_rate", "handrail_remembered"}
"""Tables that no reader needs."""
ACCOUNT = (
    "INSERT INTO handrail_budget VALUES ('day', %s, 1, 2, 'calls', 9, 0, 1, 0)",
    "INSERT INTO handrail_budget_part VALUES ('day', %s, 1, 'model', 1)",
    "INSERT INTO handrail_reservation VALUES (%s, 'day', 'one', 1, 'model', 1, 2)",
    "INSERT INTO handrail_rate VALUES ('calls/refund', %s, 1, '[1]')",
    "INSERT INTO handrail_remembered VALUES (%s, 'approvals', 'principal', 'one', 'rule', 1, 2)",
)


@tool(effect=WRITE, touches=lambda order: Access(WRITE, f"order:{order}"))
async def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


async def model(request: Request) -> Reply:
    if any(isinstance(message, ToolResults) for message in request.messages):
        return Reply((Text("done"),), model="m")
    return Reply((Call("refund", {"order": "A1"}, "c1"), Call("refund", {"order": "B2"}, "c2")))


def policy(call: CheckedCall) -> Decision:
    origin = Origin("refunds", "rules.toml", 3)
    if call.args["order"] == "B2":
        return Allow(origin)
    return Ask("Refund A1?", origin, approvers=Approvers(count=2))


@pytest.fixture
def tenants(server: str, create_postgres: Callable[[], str]) -> Generator[tuple[str, str]]:
    """A database, and its address for a role that reads the runs of one tenant."""
    url = create_postgres()
    name = url.rpartition("/")[2]
    yield url, f"postgresql://{READER}@{server.rpartition('@')[2]}/{name}"
    with psycopg.connect(url, autocommit=True) as connection:
        for role in (READER, WORKER, "handrail_reader", "handrail_writer"):
            if execute(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", role):
                execute(connection, f"DROP OWNED BY {role}")
                execute(connection, f"DROP ROLE {role}")


def execute(connection: Any, statement: str, *values: str) -> list[tuple[Any, ...]]:
    cursor = connection.execute(cast("LiteralString", statement), values or None)
    return [] if cursor.description is None else cast("list[tuple[Any, ...]]", cursor.fetchall())


def apply(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        execute(connection, FILE.read_text(encoding="utf-8"))


def add_reader(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        execute(connection, f"CREATE ROLE {READER} LOGIN IN ROLE handrail_reader")
        execute(connection, "INSERT INTO runs_reader VALUES ('acme_reader', 'tenant=acme')")


async def write_runs(url: str) -> None:
    """Write a run of each of two tenants, which waits for a second person, and one of no tenant."""
    runs = DurableRuns(url, {"shop": Agent(model, [refund], policy=policy)}, poll=0.05)
    async with runs.work(interval=0.1, drain_seconds=5):
        for tenant in ("acme", "zeta"):
            run, labels = f"{tenant}-1", [f"tenant={tenant}", "team=pay"]
            await runs.start("shop", "Refund.", run_id=run, principal=tenant, labels=labels)
        await runs.start("shop", "Refund.", run_id="nobody-1")
        for tenant in ("acme", "zeta", "nobody"):
            assert (await runs.wait(f"{tenant}-1", seconds=40)).status == "waiting"
            await runs.store.answer(f"{tenant}-1~1~c1~0", Allow(), by=Claimant("jo"))
        await runs.store.ledger.claim("acme-1~1~c1~0", "jo")
    with open_runs(url) as store:  # replies under way, which no worker has left here
        piece = {"turn": 2, "attempt": "a", "number": 0, "body": dump([Piece("text", "Soon.")])}
        rows = [{**piece, "run": f"{tenant}-1"} for tenant in ("acme", "zeta")]
        store.database.transact_now([add_pieces(rows, postgres=True)], 0)
        for tenant in ("acme", "zeta"):
            await keep_file(
                store, tenant, KeptFile("a.txt", "text/plain", tenant.encode()), most=99
            )
        chats = Conversations(store)
        for tenant in ("acme", "zeta"):
            store.results(f"{tenant}-1").put("c", "long")
            head = await chats.create(tenant, "k")
            await chats.claim(head, f"{tenant}-1", Prompt.of("Refund."))
    with psycopg.connect(url, autocommit=True) as connection:  # what each one may spend
        for tenant in ("acme", "zeta"):
            for statement in ACCOUNT:
                execute(connection, statement, tenant)


def read_tables(url: str) -> dict[str, list[str]]:
    """Return the rows of all tables of runs that a role sees, each as text."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows = execute(
            connection, r"SELECT tablename FROM pg_tables WHERE tablename LIKE 'handrail\_%'"
        )
        found: dict[str, list[str]] = {}
        for (table,) in sorted(rows):
            query = sql.SQL("SELECT CAST(t AS text) FROM {} AS t").format(sql.Identifier(table))
            found[table] = [row[0] for row in connection.execute(query).fetchall()]
        return found


def count_by_owner(tables: dict[str, list[str]]) -> dict[str, tuple[int, int, int]]:
    """Return how many rows of each table are of one tenant, of the other, and of neither."""
    counts: dict[str, tuple[int, int, int]] = {}
    for table, rows in tables.items():
        acme = sum("acme" in row for row in rows)
        zeta = sum("zeta" in row for row in rows)
        counts[table] = (acme, zeta, len(rows) - acme - zeta)
    return counts


async def test_a_reader_sees_the_runs_of_its_tenant_in_every_table(
    tenants: tuple[str, str],
) -> None:
    url, address = tenants
    await write_runs(url)
    apply(url)
    add_reader(url)
    everything, seen = count_by_owner(read_tables(url)), count_by_owner(read_tables(address))

    of_runs = everything.keys() - SHARED - HIDDEN
    for table in of_runs:  # all tables have rows of both, so that a leak would show
        assert min(everything[table][:2]) > 0, table
    expected = {table: (everything[table][0], 0, 0) for table in of_runs}
    expected |= {table: everything[table] for table in SHARED}
    expected |= dict.fromkeys(HIDDEN, (0, 0, 0))
    assert seen == expected


async def test_a_console_of_a_reader_shows_one_tenant(tenants: tuple[str, str]) -> None:
    url, address = tenants
    await write_runs(url)
    apply(url)
    add_reader(url)
    apply(url)  # a second time changes nothing
    for place, names in ((url, ["acme-1", "nobody-1", "zeta-1"]), (address, ["acme-1"])):
        with open_runs(place) as store:
            records = store.records()
            assert sorted(row.id for row in records.runs().rows) == names
            assert sorted(row.run for row in records.inbox().rows) == names
            assert sorted({row.row.run for row in records.events(limit=500).rows}) == names
            assert sorted(head.run for head in store.runs()) == names
            assert sorted(call.run for call in store.requests()) == names
            assert sorted(store.names()) == names
            other = "zeta-1" in names
            assert (records.run("zeta-1") is not None) is other
            assert bool(records.turns("zeta-1")) is other
            assert bool(records.calls("zeta-1").rows) is other
            assert (records.request("zeta-1~1~c1~0") is not None) is other
            assert bool(list(store.read("zeta-1"))) is other
            assert [len(records.turns("acme-1")), len(records.calls("acme-1").rows)] == [2, 2]
            own = records.request("acme-1~1~c1~0")
            assert own is not None
            assert [vote.by for vote in own.votes] == ["jo"]
            assert verify(store, "acme-1") is None
            assert {count.count for count in records.rules()} == {len(names)}
            assert (records.fleet() is not None) is other  # the engine's rows have no tenant
            records.close()


async def test_a_reader_cannot_write(tenants: tuple[str, str]) -> None:
    url, address = tenants
    await write_runs(url)
    apply(url)
    add_reader(url)
    with open_runs(address) as store:
        with pytest.raises(JournalError, match="permission denied"):
            await store.answer("acme-1~1~c1~0", Allow(), by=Claimant("eve"))
        with pytest.raises(JournalError, match="permission denied"):
            store.remove("acme-1")
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in (
            "INSERT INTO runs_reader VALUES ('acme_reader', 'tenant=zeta')",
            "SELECT * FROM runs_reader",
            "SET ROLE handrail_writer",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                execute(connection, statement)


async def test_a_worker_that_does_not_own_the_tables_writes_runs_of_all_tenants(
    tenants: tuple[str, str],
) -> None:
    url, address = tenants
    with open_runs(url) as store:
        store.append("zeta-1", [JournalLine.of("status", labels=["tenant=zeta"])])
    apply(url)
    with psycopg.connect(url, autocommit=True) as connection:
        execute(connection, f"CREATE ROLE {WORKER} LOGIN IN ROLE handrail_writer")
    with open_runs(address.replace(READER, WORKER)) as store:
        store.append("acme-1", [JournalLine.of("status", labels=["tenant=acme"])])
        store.append("zeta-1", [JournalLine.of("status", status="done")])
        assert [(head.run, head.entries) for head in store.runs()] == [
            ("acme-1", 1),
            ("zeta-1", 2),
        ]


async def test_every_table_of_runs_has_a_policy(tenants: tuple[str, str]) -> None:
    url, _ = tenants
    with open_runs(url) as store:
        store.create()

    def missing() -> list[str]:
        """Return the tables without a condition for readers."""
        apply(url)
        with psycopg.connect(url, autocommit=True) as connection:
            rows = execute(
                connection,
                "SELECT t.tablename FROM pg_tables t LEFT JOIN pg_policies p "
                "ON p.tablename = t.tablename AND p.policyname = 'reads' "
                r"WHERE t.tablename LIKE 'handrail\_%' AND (p.qual IS NULL OR NOT t.rowsecurity)",
            )
        return [row[0] for row in rows]

    assert missing() == []
    with psycopg.connect(url, autocommit=True) as connection:
        execute(connection, "CREATE TABLE handrail_new (secret TEXT)")
    assert missing() == ["handrail_new"]
