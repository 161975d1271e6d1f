"""What a search costs a model: tokens of the first request's tools, and of five hits."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from catalogues import Question, read_lines
from ours import spec

from handrail import Call, Executor, Exposure, Tool, Toolset
from handrail._values.content import estimate_tokens
from handrail.providers import openai_chat

TOOLS = 3_000
MOST_FIRST = 4_500
MOST_HITS = 230
COUNT = """
import json, os, pathlib, sys
from importlib.util import find_spec
folder = pathlib.Path(find_spec("litellm").origin).parent / "litellm_core_utils" / "tokenizers"
os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
import tiktoken
table = tiktoken.get_encoding("o200k_base")
print(json.dumps([len(table.encode(text, disallowed_special=())) for text in json.load(sys.stdin)]))
"""
"""Counts tokens by a table that comes with litellm, which is not imported."""


async def _send(_: object, __: object) -> str:
    raise NotImplementedError


def make_executor() -> Executor[Any]:
    """Return an executor with 3,000 deferred tools, spread over the labelled catalogues."""
    named = {tool["name"]: tool for tool in read_lines("tools")}
    some = list(named.values())[:: max(1, len(named) // TOOLS)][:TOOLS]
    specs = [replace(spec(tool), exposure=Exposure.DEFERRED) for tool in some]
    return Executor(Toolset(*(Tool.remote(one, _send) for one in specs)))


def count(texts: Sequence[str], python: str | None) -> list[int]:
    """Return the tokens of texts, or an estimate without an interpreter that can count them."""
    if python is None:
        return [estimate_tokens(text) for text in texts]
    ran = subprocess.run(
        [python, "-c", COUNT],
        input=json.dumps(texts),
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    return list(json.loads(ran.stdout))


def cost_rows(questions: Sequence[Question], python: str | None) -> Iterator[str]:
    executor = make_executor()
    sent = json.dumps(list(openai_chat.encode_tools(executor.tools)), default=dict)
    found = [
        executor.run_sync(Call("search_tools", {"queries": [one.queries[0]]}, "1"))
        for one in questions
    ]
    full = [result.text for result in found if len(result.found) == 5]
    first, *hits = count([sent, *full], python)
    how = "o200k" if python else "estimated: no table of o200k"
    yield f"\ntokens with {len(executor.tools):,} tools ({how})"
    yield f"tools of the first request: {first:,}, at most {MOST_FIRST:,}: {first <= MOST_FIRST}"
    middle = statistics.mean(hits)
    yield (
        f"five hits: mean {middle:.0f}, at most {MOST_HITS}: {middle <= MOST_HITS} "
        f"(median {statistics.median(hits):.0f}, highest {max(hits)}, {len(hits)} searches)"
    )
