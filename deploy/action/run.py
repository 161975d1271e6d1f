"""Runs `handrail run --json` with the inputs of the action, and reports what became of it.

The log gets numbers and fixed words only. The prompt goes to stdin, so it is never an argument.
The model's text goes to the summary, to outputs and to files.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

from job import append, child_environment, log, printable, redact, write_outputs
from summary import Report, summarize

OPTIONS = {
    "INPUT_MODEL": "--model",
    "INPUT_BASE_URL": "--base-url",
    "INPUT_KEY_VARIABLE": "--key-variable",
    "INPUT_MODE": "--mode",
    "INPUT_ON_DENIED": "--on-denied",
    "INPUT_MAX_TURNS": "--max-turns",
    "INPUT_MAX_CALLS": "--max-calls",
    "INPUT_MAX_TOKENS": "--max-tokens",
    "INPUT_MAX_TOTAL_TOKENS": "--max-total-tokens",
    "INPUT_MAX_SECONDS": "--max-seconds",
}
"""The option for each input. An empty input leaves its option out."""
LISTS = {"INPUT_ALLOW_HOSTS": "--allow-host", "INPUT_WITHOUT": "--without"}
"""The option for each word of an input."""
_MAX_FILE_BYTES = 1 << 24
_FACT_SECONDS = 120


class InvalidInput(Exception):
    """An input cannot be used. The message names the input, and not its value."""


def main() -> int:
    """Run the task, and return the exit code of `handrail run`."""
    folder = Path(tempfile.mkdtemp(prefix="handrail-run-", dir=os.environ["RUNNER_TEMP"]))
    try:
        prompt, environment = read_prompt(), prepare_settings(folder)
    except InvalidInput as error:
        log(f"handrail: {error}")
        message = {"message": str(error), "hint": ""}
        report(Report(code=2, run=None, error=message, cost=None, changed=[]), folder)
        return 2
    began = time.gmtime()
    code = run(arguments(), prompt, environment, folder)
    document = read_json((folder / "out").read_text(encoding="utf-8", errors="replace"))
    found = Report(
        code=code,
        run=document,
        error=read_error(folder / "log.txt"),
        cost=find_cost(document, environment),
        changed=find_changes(document, began, environment),
    )
    report(found, folder)
    return code


def arguments() -> list[str]:
    """Return the options of `handrail run`. Each is one word with its value."""
    given = [(option, os.environ.get(name, "").strip()) for name, option in OPTIONS.items()]
    lists = [(option, os.environ.get(name, "").split()) for name, option in LISTS.items()]
    return [
        *(f"{option}={value}" for option, value in given if value),
        *(f"{option}={value}" for option, values in lists for value in values),
    ]


def read_prompt() -> bytes:
    """Return the prompt, followed by the content of the prompt file."""
    parts = [os.fsencode(os.environ.get("INPUT_PROMPT", "").strip())]
    if name := os.environ.get("INPUT_PROMPT_FILE", ""):
        parts.append(read_input_file("prompt-file", name))
    if not any(parts):
        raise InvalidInput("pass a prompt, or a prompt-file")
    return b"\n\n".join(filter(None, parts))


def read_input_file(title: str, name: str) -> bytes:
    """Return the content of a file. A relative name, and its links, must stay in the folder."""
    here = Path.cwd()
    path = (here / name).resolve()
    if not Path(name).is_absolute() and not path.is_relative_to(here.resolve()):
        raise InvalidInput(f"{title} leads out of working-directory")
    if not path.is_file() or path.stat().st_size > _MAX_FILE_BYTES:
        raise InvalidInput(f"{title} is not a file of at most {_MAX_FILE_BYTES:,} bytes")
    return path.read_bytes()


def prepare_settings(folder: Path) -> dict[str, str]:
    """Write the rules into settings of their own, and return the variables for handrail."""
    settings = folder / "config" / "handrail"
    settings.mkdir(parents=True, mode=0o700)
    if name := os.environ.get("INPUT_RULES_FILE", ""):
        rules = settings / "rules.toml"
        rules.touch(mode=0o600)
        rules.write_bytes(read_input_file("rules-file", name))
    return child_environment(XDG_CONFIG_HOME=str(folder / "config"))


def run(options: list[str], prompt: bytes, environment: dict[str, str], folder: Path) -> int:
    """Run handrail, passing signals on, and return its exit code."""
    (folder / "prompt").write_bytes(prompt)
    early: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: early.append(number))
    with (
        (folder / "prompt").open("rb") as stdin,
        (folder / "out").open("wb") as stdout,
        (folder / "log.txt").open("wb") as stderr,
        subprocess.Popen(  # noqa: S603
            [handrail(), "run", "--json", "--no-input", *options],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=environment,
        ) as child,
    ):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: child.send_signal(number))
        for sent in early:
            child.send_signal(sent)
        code = child.wait()
    return code if code >= 0 else 128 - code


def handrail() -> str:
    """Return the command."""
    return str(Path(os.environ["ACTION_BIN"], "handrail"))


def read_json(text: str) -> dict[str, Any] | None:
    """Return the object in a text, if there is one."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def read_error(log_file: Path) -> dict[str, Any] | None:
    """Return the error, which is the last line of the log."""
    lines = log_file.read_text(encoding="utf-8", errors="replace").splitlines()
    match read_json(lines[-1]) if lines else None:
        case {"error": {"message": str(), "hint": str()} as error}:
            return dict(error)
        case _:
            return None


def find_cost(document: dict[str, Any] | None, environment: dict[str, str]) -> str | None:
    """Return the cost of a run in US dollars, if prices are known and tokens were counted."""
    if not document or not any(document["usage"].values()):
        return None
    facts = ask(["runs", "stats", document["id"]], environment)
    return facts["cost"] if facts else None


def find_changes(
    document: dict[str, Any] | None, began: time.struct_time, environment: dict[str, str]
) -> list[str]:
    """Return the paths that the run changed, as the records for undo have them."""
    if not document or not document["calls"]:
        return []
    facts = ask(["undo", "--list"], environment)
    changes: list[dict[str, Any]] = facts["changes"] if facts else []
    start = time.strftime("%Y-%m-%dT%H:%M:%S", began)
    return sorted({path for one in changes if one["time"] >= start for path in one["paths"]})


def ask(words: list[str], environment: dict[str, str]) -> dict[str, Any] | None:
    """Return the document of a command, if it succeeds."""
    try:
        done = subprocess.run(  # noqa: S603
            [handrail(), *words, "--json", "--no-input"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
            timeout=_FACT_SECONDS,
            check=True,
        )
    except subprocess.SubprocessError:
        return None
    return read_json(done.stdout.decode(errors="replace"))


def report(found: Report, folder: Path) -> None:
    """Write the summary, the outputs, the files and a line of the log, all without secrets."""
    safe = Report(**redact(vars(found)))
    outputs = {"exit-code": str(safe.code), "answer": "", "run-id": "", "denied": "0", "json": ""}
    if safe.run:
        document = folder / "run.json"
        document.write_text(json.dumps(safe.run, indent=2), encoding="utf-8")
        outputs |= {"answer": printable(safe.run["answer"]), "run-id": safe.run["id"]}
        outputs |= {"denied": str(len(safe.run["denials"])), "json": str(document)}
    log_file = folder / "log.txt"
    if log_file.exists():
        text = log_file.read_text(encoding="utf-8", errors="replace")
        log_file.write_text(redact(text), encoding="utf-8")
        outputs["log"] = str(log_file)
    for name in ("out", "prompt"):
        (folder / name).unlink(missing_ok=True)
    write_outputs(outputs)
    append("GITHUB_STEP_SUMMARY", summarize(safe))
    why = str(safe.error.get("code", "")) if safe.error else ""
    reason = f" ({why})" if re.fullmatch("[a-z_]+", why) else ""
    log(f"handrail run: exit code {safe.code}{reason}, calls denied: {outputs['denied']}")


if __name__ == "__main__":
    sys.exit(main())
