"""The command `handrail`: its commands by name, each loaded when it is called.

It stands beside the package, so that `handrail --help` and `--version` load nothing but click.
Imports stand inside functions here, where an interrupt meets somebody who knows what to do.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run a command, and end with its exit code."""
    try:
        from handrail_cli._tree import run  # noqa: PLC0415

        sys.exit(run(sys.argv[1:], _version()))
    except KeyboardInterrupt:  # there was nothing to interrupt yet
        sys.exit(130)
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.stderr.write("handrail: the command needs click\n  pip install 'handrail[cli]'\n")
        sys.exit(2)
    finally:
        _be_deaf()


def _be_deaf() -> None:
    """It is over, and there is nothing left to interrupt or to end."""
    import signal  # noqa: PLC0415

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _version() -> str:
    """The version, as the package beside this one has it; to import that would cost more."""
    beside = f"{__file__.removesuffix('_cli/__init__.py')}/_version.py"
    with open(beside, encoding="utf-8") as file:  # noqa: PTH123  pathlib is not loaded yet
        return file.read().rpartition("=")[2].strip(' "\n')
