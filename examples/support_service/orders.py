"""The tools of a support agent: orders and refunds, in a SQLite file."""

import sqlite3
from contextlib import closing
from pathlib import Path

from handrail import READ, WRITE, Access, Context, ToolFailed, tool


class Orders:
    """A shop's orders."""

    def __init__(self, file: Path) -> None:
        self._file = file
        with closing(self._connect()) as rows, rows:
            rows.execute("CREATE TABLE IF NOT EXISTS orders (id PRIMARY KEY, customer, euros)")
            rows.execute("CREATE TABLE IF NOT EXISTS refunds (key PRIMARY KEY, order_id, euros)")
            rows.execute("INSERT OR IGNORE INTO orders VALUES ('o1', 'ada', 250)")

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._file)

    def find(self, order: str, customer: str) -> int | None:
        with closing(self._connect()) as rows:
            found = rows.execute(
                "SELECT euros FROM orders WHERE id = ? AND customer = ?", (order, customer)
            ).fetchone()
        return found[0] if found else None

    def refund(self, key: str, order: str, euros: int) -> None:
        with closing(self._connect()) as rows, rows:
            rows.execute("INSERT OR IGNORE INTO refunds VALUES (?, ?, ?)", (key, order, euros))

    def refunds(self) -> list[tuple[str, int]]:
        with closing(self._connect()) as rows:
            return list(rows.execute("SELECT order_id, euros FROM refunds"))


def read_order(order: str) -> Access:
    return Access(READ, f"order:{order}")


def write_order(order: str, **_: object) -> Access:
    return Access(WRITE, f"order:{order}")


@tool(effect=READ, touches=read_order)
def find_order(order: str, context: Context[Orders]) -> str:
    """Find an order of the customer."""
    euros = context.deps.find(order, context.principal or "")
    return "There is no such order." if euros is None else f"Order {order}: {euros} euros."


@tool(
    effect=WRITE,
    idempotent=True,
    touches=write_order,
    headline="Refund {euros} euros of order {order}".format,
)
def refund(order: str, euros: int, context: Context[Orders]) -> str:
    """Refund part of an order of the customer."""
    paid = context.deps.find(order, context.principal or "")
    if paid is None or euros > paid:
        raise ToolFailed("The customer has no such order, or has paid less.")
    context.deps.refund(context.idempotency_key, order, euros)
    return f"Refunded {euros} euros."
