"""`handrail models list`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns
from handrail.cli._base.local_servers import USUAL_PORTS, find_servers
from handrail.cli._base.options import PORTS
from handrail.cli._base.printable import one_line
from handrail.cli._project.models import BY_PREFIX
from handrail.models import PriceList, find_credentials, known_prices


@as_command("list", "List names of models: of local servers, and those with known prices.")
@PORTS
def command(app: App, ports: tuple[int, ...]) -> None:
    """List names of models: of local servers, and those with known prices.

    Servers on this machine are asked for their models; nothing else is sent. The other rows are
    models whose prices handrail knows, in US dollars for a million tokens. Providers have more
    models: any name works.
    """
    servers = find_servers(ports or USUAL_PORTS)
    local = [
        _item(name, base_url=server.url, ready=True) for server in servers for name in server.names
    ]
    items = [*local, *(item for known in known_prices() for item in _known(known))]
    app.print_all("models", items, _lines(items, app.width))
    if not local:
        app.say("no model server answers on this machine; start one, or pass `--port N`")
    app.say("use one with `--model NAME`, or set it with `handrail init`")


def _item(name: str, *, base_url: str | None = None, ready: bool, **prices: str) -> dict[str, Any]:
    empty = {"input": None, "output": None, "as_of": None}
    return {"model": name, "base_url": base_url, "ready": ready, **empty, **prices}


def _known(known: PriceList) -> Iterator[dict[str, Any]]:
    """Return the models in a price list, by their provider's name."""
    prefix = known.provider.lower()
    ready = find_credentials(BY_PREFIX[prefix]) is not None
    for name, price in known.prices.items():
        yield _item(
            f"{prefix}:{name}",
            ready=ready,
            input=str(price.input),
            output=str(price.output),
            as_of=known.as_of.isoformat(),
        )


def _lines(items: Sequence[dict[str, Any]], width: int | None) -> Iterator[str]:
    return columns([_row(item) for item in items], width=width)


def _row(item: dict[str, Any]) -> tuple[str, str]:
    name = one_line(item["model"])
    if item["base_url"]:
        return name, f"--base-url {item['base_url']}"
    key = BY_PREFIX[item["model"].partition(":")[0]].keys[0]
    price = f"${item['input']} in, ${item['output']} out, as of {item['as_of']}"
    return name, price if item["ready"] else f"{price}; needs {key}"
