"""The `handrail` entry point. Each command is imported when called.

`handrail --help` and `--version` import nothing but click. Imports are inside functions, where an
interrupt is handled.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run a command and exit with its exit code."""
    try:
        from handrail._version import __version__
        from handrail.cli._tree import run

        sys.exit(run(sys.argv[1:], __version__))
    except KeyboardInterrupt:  # no command has started yet
        sys.exit(130)
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.stderr.write(
            "handrail: the package `click` is not installed\n  run `pip install 'handrail[cli]'`\n"
        )
        sys.exit(2)
    finally:
        _ignore_signals()


def _ignore_signals() -> None:
    """Ignore SIGINT and SIGTERM: the command has ended, and there is nothing left to interrupt."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
