"""What a screen costs: its first word beside the SDK's own, and a long reply beside plain writing."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
import tempfile
import time
from math import inf
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI

from definition import Row
from handrail.agent import Agent, RunEvent
from handrail.cli._chat.watch import Watcher
from handrail.cli._screen.terminal import Screen
from handrail.cli._screen.theme import Theme
from handrail.messages import Delta
from handrail.models import openai_chat
from handrail.providers import openai_chat as chat_format
from models import REQUEST, Work, ratio, server, until

FIRST_WORD = 1.1
"""The most that the first word on the screen may take, times the SDK's first token."""
ROUNDS = 3
TIMES = 2
MODEL = '''
from handrail import Text
from handrail.messages import Delta, Reply

SECTION = """## What the loop does

The loop in `parse_rows` yields a row only when it meets a newline, so a file that does not end in \\
one loses its **last row**. Three of the four readers do this, and none of their tests has a file \\
without a final newline. The smallest fix flushes what is left after the loop.

| Reader | Last line |
|---|---|
| parse_rows | lost |

- Add the flush to `parse_rows` and `parse_table`.
- Add a test with a file that has no final newline, for all of the readers.

```python
def parse_rows(text: str) -> Iterator[Row]:
    row = Row()
    for char in text:
        if char == NEWLINE:  # the last line may have none
            yield row
```

"""


async def model(request):
    reply = (SECTION * 400)[:SIZE]
    for at in range(0, SIZE, 20):
        yield Delta(reply[at : at + 20])
    yield Reply((Text(reply),))
'''


def rows() -> list[Row]:
    """What the screen of a chat costs."""
    return [*asyncio.run(first_word()), *long_reply()]


async def first_word() -> list[Row]:
    """CPU time until the first word of a reply is written: by a chat, and by a loop of the SDK."""
    out = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    with out, server() as url:
        base = f"{url}/chat/text"
        drawn, plain, times = await ratio(_drawn(base, out), _plain(base, out), 20)
    held = f"ratio {times:.2f} <= {FIRST_WORD}, to the stream of the SDK"
    ok = times <= FIRST_WORD
    return [Row("a chat's first word", drawn, plain, "ms CPU", held, ok)]


def _drawn(base: str, out: Any) -> Work:
    model = openai_chat("m", base_url=base)
    agent = Agent(model, REQUEST.tools, system=REQUEST.system, max_tokens=REQUEST.max_tokens)
    watcher = Watcher(Screen(out, theme=Theme("dark", deep=True), live=True), lambda _: None)

    async def work() -> float:
        shown: list[float] = []

        def on_event(event: RunEvent) -> None:
            watcher.on_run_event(event)
            if isinstance(event, Delta) and not shown:
                shown.append(time.process_time())
                run.interrupt()

        watcher.begin()
        run = agent.run("Say hello.", on_event=on_event)
        await run
        watcher.end()
        return shown[0]

    return work


def _plain(base: str, out: Any) -> Work:
    client = AsyncOpenAI(base_url=base, api_key="k")
    tools: Any = chat_format.encode_tools(REQUEST.tools)
    body: Any = chat_format.encode_messages(REQUEST.messages, system=REQUEST.system)

    def write(chunk: Any) -> bool:
        text = chunk.choices[0].delta.content
        if text:
            out.write(text)
            out.flush()
        return bool(text)

    async def work() -> float:
        made = client.chat.completions.create(model="m", tools=tools, **body, stream=True)
        async with await made as stream:
            return await until(stream, write)

    return work


def long_reply() -> list[Row]:
    """A reply of 200 kB in pieces of 20 characters, less what a short reply costs."""
    ours = theirs = inf
    for _ in range(ROUNDS):
        ours = min(ours, spent("chat", 200_000) - spent("chat", 20))
        theirs = min(theirs, spent("run", 200_000) - spent("run", 20))
    held = f"ratio {ours / theirs:.2f} <= {TIMES}, to `handrail run` into a pipe"
    return [
        Row(
            "a chat's reply of 200 kB",
            ours * 1e3,
            theirs * 1e3,
            "ms CPU",
            held,
            ours <= TIMES * theirs,
        )
    ]


def spent(name: str, size: int) -> float:
    """CPU seconds of a command whose model gives a reply of this size."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder, "work")
        work.mkdir()
        work.joinpath("model.py").write_text(f"SIZE = {size}\n{MODEL}", encoding="utf-8")
        child, terminal = pty.fork()
        if not child:
            os.chdir(work)
            words = [sys.executable, "-m", "handrail.cli", name, "-m", "model.py:model", "Go."]
            out = os.open(os.devnull, os.O_WRONLY)
            if name == "run":
                os.dup2(out, 1)
            os.execve(
                sys.executable, words, {**os.environ, "HOME": folder, "TERM": "xterm-256color"}
            )
        return drain(child, terminal)


def drain(child: int, terminal: int) -> float:
    """Read what a command prints, end a chat at its prompt, and return its CPU seconds."""
    last, asked = b"", False
    try:
        while piece := os.read(terminal, 65_536):
            last = (last + piece)[-200:]
            if last.endswith(b"> ") and not asked:
                asked = True
                os.write(terminal, b"/quit\r")
    except OSError:
        pass  # it has ended
    used = os.wait4(child, 0)[2]
    os.close(terminal)
    return used.ru_utime + used.ru_stime
