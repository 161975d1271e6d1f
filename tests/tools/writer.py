"""A process that forks writers: one for each line that it reads, until it is killed from outside.

Given a folder. Prints the id of each; a writer gives ``f`` one of two contents, again and again.
"""

from __future__ import annotations

import os
import sys
from itertools import cycle

from handrail.tools import Workspace
from handrail.tools._change import changing

CONTENTS = (b"a" * 300_000, b"b" * 500_000)


def write(workspace: Workspace) -> None:
    for content in cycle(CONTENTS):
        with changing(workspace, "f") as change:
            change.write(content)


def main(folder: str) -> None:
    workspace = Workspace(folder)
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            write(workspace)
        print(child, flush=True)  # noqa: T201
        os.waitpid(child, 0)
        print("ended", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
