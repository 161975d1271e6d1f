"""A process of the support service in `examples/support_service`: its model waits in mid-answer.

`python support_program.py worker|web DATABASE FOLDER PORT`. The model answers on once FOLDER/go is there.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio

from handrail import Call, Text
from handrail.messages import Delta, Reply, Request, StreamItem, ToolResults, Usage

EXAMPLE = Path(__file__).parents[2] / "examples" / "support_service"
USAGE = Usage(input_tokens=100, output_tokens=20)


def make_model(folder: Path) -> object:
    async def model(request: Request) -> AsyncIterator[StreamItem]:
        if isinstance(request.messages[-1], ToolResults):
            yield Delta("You get ")
            while not (folder / "go").exists():  # noqa: ASYNC110  another process makes it
                await anyio.sleep(0.05)
            yield Delta("150 euros back.")
            yield Reply((Text("You get 150 euros back."),), usage=USAGE)
        else:
            yield Delta("One moment. ")
            call = Call("refund", {"order": "o1", "euros": 150}, "c1")
            yield Reply((Text("One moment. "), call), "calls", usage=USAGE)

    return model


if __name__ == "__main__":
    sys.path.insert(0, str(EXAMPLE))
    import service

    word, database, folder, port = sys.argv[1:]
    runs = service.make_runs(database, make_model(Path(folder)), Path(folder) / "orders.db")
    service.main(word, runs, int(port))
