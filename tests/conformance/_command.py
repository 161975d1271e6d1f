"""``python -m conformance [--json] [NAME=]MODULE:FUNCTION ...``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

import anyio

from conformance import check, is_good, to_json, to_markdown
from conformance._check import Observation
from conformance._setup import Host

OWN = "handrail=conformance:run_with_handrail"


def find_host(path: str) -> tuple[str, Host]:
    """Return a host's name and function."""
    name, _, place = path.rpartition("=")
    module, _, attribute = place.partition(":")
    host: Host = getattr(import_module(module), attribute)
    return name or place, host


async def observe(paths: Sequence[str]) -> dict[str, dict[str, Observation]]:
    """Run all provocations against each host."""
    hosts = [find_host(path) for path in paths]
    return {name: await check(host) for name, host in hosts}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table. Returns 1 if a host did something wrong, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance",
        description="Run provocations against executors of tools, and print a table.",
    )
    parser.add_argument("hosts", nargs="*", default=[OWN], metavar="[NAME=]MODULE:FUNCTION")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    given = parser.parse_args(arguments)
    observed = anyio.run(observe, given.hosts)
    sys.stdout.write(to_json(observed) + "\n" if given.json else to_markdown(observed))
    return int(not all(is_good(one) for rows in observed.values() for one in rows.values()))
