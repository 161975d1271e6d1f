"""`python tests/adapters/run.py [--short | --table] [HOST ...]`: test the adapters, each beside its framework.

Each framework has a virtual environment of its own, below HANDRAIL_HOSTS or the user's cache folder;
what exists is used again. In it run the tests of the adapter, with every line and branch reached,
and mypy, also of how a user writes it (`typed/`); with --short, neither mypy nor the bare framework, and one resumed process. With --table, the hosts are observed again, and the tables of the documentation are written.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TypeAlias

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))

from tiny_server import running  # noqa: E402  beside this folder

ROOT = HERE.parents[1]
ENVIRONMENTS = Path(os.environ.get("HANDRAIL_HOSTS", Path.home() / ".cache" / "handrail" / "hosts"))
NEEDED = ["coverage", "mypy", "opentelemetry-sdk", "pytest"]
HOSTS: dict[str, list[str]] = {
    "pydantic_ai": ["openai"],
    "langgraph": ["langchain", "langchain-openai", "langgraph-checkpoint-sqlite"],
    "langchain": ["langgraph-checkpoint-sqlite"],
    "openai_agents": [],
    "anthropic": [],
    "strands": [],
    "google_adk": ["aiosqlite", "sqlalchemy[asyncio]"],
    "agent_framework": [],
    "autogen": [],
    "llama_index": [],
    "agno": [],
    "smolagents": [],
    "crewai": ["crewai>=1.15,<2"],
    "fastmcp": [],
}
"""The hosts, each with packages that only its tests need."""
REAL = ("pydantic_ai", "langgraph", "openai_agents")
"""The hosts that a real model drives too, unless --short."""
CELLS = ("pydantic_ai", "langgraph", "openai_agents")
"""The hosts in whose environments cells of the table of joints are tested."""
OVERRIDDEN = {"crewai"}
"""Hosts without an extra: their packages exclude the versions that handrail needs, but work with them."""
PAGE = ROOT / "docs" / "frameworks" / "index.md"
FIRST_PAGE = ROOT / "docs" / "index.md"
RESULTS = HERE / "results.json"
Results: TypeAlias = dict[str, dict[str, list[str]]]
"""By host and provocation: what happens bare, and with handrail."""
MARKS = ("<!-- table -->\n", "<!-- end of table -->\n")


def requirements(host: str) -> list[str]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extra = project["optional-dependencies"].get(host.replace("_", "-"), [])
    programs = project["optional-dependencies"]["programs"]
    return [*project["dependencies"], *extra, *programs, *HOSTS[host], *NEEDED]


def make_environment(host: str) -> Path:
    """Return the interpreter of a host's environment, which is made and filled if needed."""
    folder, wanted = ENVIRONMENTS / host, "\n".join(requirements(host))
    ready, python = folder / "ready", folder / "bin" / "python"
    if not ready.exists() or ready.read_text(encoding="utf-8") != wanted:
        run = [sys.executable, "-m", "uv"]
        command = [*run, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)]
        subprocess.run(command, check=True)  # noqa: S603  our own
        install = [*run, "pip", "install", "--quiet", "--python", str(python), *wanted.split("\n")]
        if host in OVERRIDDEN:
            (folder / "overrides.txt").write_text(wanted, encoding="utf-8")
            install += ["--override", str(folder / "overrides.txt")]
        subprocess.run(install, check=True)  # noqa: S603
        ready.write_text(wanted, encoding="utf-8")
    return python


def start(host: str, *arguments: str, capture: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a module in the environment of a host."""
    paths = os.pathsep.join([str(ROOT / "src"), str(HERE), str(HERE.parent)])
    environment = os.environ | {
        "PYTHONPATH": paths,
        "MYPYPATH": str(ROOT / "src"),
        "HANDRAIL_HOST": host,
        "COVERAGE_FILE": str(ENVIRONMENTS / host / ".coverage"),
        "PYTHONDONTWRITEBYTECODE": "",
    }
    return subprocess.run(  # noqa: S603
        [str(make_environment(host)), "-m", *arguments],
        cwd=ROOT,
        env=environment,
        check=False,
        encoding="utf-8",
        stdout=subprocess.PIPE if capture else None,
        stderr=subprocess.DEVNULL if capture else None,
    )


def test(host: str, *, short: bool) -> bool:
    """Run the tests of one adapter, and check its coverage and types."""
    adapters = ROOT / "src" / "handrail" / "adapters"
    modules = [adapters / folder / f"{host}.py" for folder in (".", "_calls", "_sources")]
    measured = [str(one.relative_to(ROOT)) for one in modules if one.exists()]
    plain = ["--noconftest", "-c", os.devnull, "--rootdir", str(HERE), "-p", "no:cacheprovider"]
    chosen = ["-k", "not control and not first_denied"] if short else []
    tests = [HERE / "host_tests.py", HERE / f"on_{host}.py"]
    tests += [HERE.parent / "joints" / "host_cells.py"] if host in CELLS else []
    typed = [*(HERE / "typed").glob(f"with_{host}.py")]
    steps = [
        ["coverage", "run", "--branch", f"--include={','.join(measured)}", "--rcfile", os.devnull,
         "-m", "pytest", "-q", "--disable-warnings", *plain, *chosen, *map(str, tests)],
        ["coverage", "report", "--show-missing", "--fail-under=100", "--rcfile", os.devnull],
        ["mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(ENVIRONMENTS / host / "mypy"),
         "--config-file", os.devnull, *measured, *map(str, typed)],
    ]  # fmt: skip
    print(f"== {host}", flush=True)  # noqa: T201
    if short or host not in REAL:
        codes = [start(host, *step).returncode for step in (steps[:-1] if short else steps)]
        return not any(codes)
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as tiny:
        os.environ["TINY_URL"] = tiny.url
        codes = [start(host, *step).returncode for step in steps]
    return not any(codes)


def observe(host: str) -> dict[str, list[str]]:
    """Return what a host does with each provocation, bare and with handrail."""
    kinds = [f"{kind}=on_{host}:{kind}" for kind in ("bare", "railed")]
    ran = start(host, "conformance", "--json", *kinds, capture=True)
    start_of_json = f"\n{ran.stdout}".index("\n{\n")  # a host may print before it, and behind it
    bare, railed = json.JSONDecoder().raw_decode(ran.stdout, start_of_json)[0].values()
    return {name: [bare[name]["word"], railed[name]["word"]] for name in railed}


def read_results() -> Results:
    """Return the stored results: what each host does, bare and with handrail."""
    stored: Results = json.loads(RESULTS.read_text(encoding="utf-8"))
    return stored


def table(results: Results) -> str:
    """Return the table of all hosts."""
    rows = ["| provocation | alone | with handrail |\n", "|---|---|---|\n"]
    for name in next(iter(results.values())):
        bare, railed = zip(*[observed[name] for observed in results.values()], strict=True)
        shown = [_by_word(dict(zip(results, words, strict=True))) for words in (bare, railed)]
        rows.append(f"| {name} | {' | '.join(shown)} |\n")
    return "".join(rows)


def _by_word(words: dict[str, str]) -> str:
    """Return the most frequent word, then each other one with its hosts."""
    found = list(words.values())
    usual, *others = sorted(set(found), key=lambda one: (-found.count(one), one))
    hosts = {one: [host for host in words if words[host] == one] for one in others}
    return "; ".join([usual, *(f"{one}: {', '.join(hosts[one])}" for one in others)])


def count(words: list[str]) -> str:
    """Return how often each word occurs, the good one first."""
    order = [
        "ok",
        *sorted(set(words) - {"ok", "n/a"}, key=lambda one: (-words.count(one), one)),
        "n/a",
    ]
    return ", ".join(f"{words.count(one)} {one}" for one in order if one in words)


def summary(results: Results) -> str:
    """Return the table of the first page: in how many frameworks each thing happens."""
    rows = ["| what happens | alone | with handrail |\n", "|---|---|---|\n"]
    for name in next(iter(results.values())):
        bare, railed = zip(*[observed[name] for observed in results.values()], strict=True)
        rows.append(f"| {name} | {count(list(bare))} | {count(list(railed))} |\n")
    return "".join(rows)


def render(page: Path, results: Results) -> str:
    """Return a page with the current table."""
    made = summary(results) if page == FIRST_PAGE else table(results)
    before, _, rest = page.read_text(encoding="utf-8").partition(MARKS[0])
    return f"{before}{MARKS[0]}\n{made}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}"


def write_tables(hosts: list[str]) -> None:
    """Observe hosts, store what they do, and write it into the documentation."""
    for host in hosts:
        results = read_results()
        observed = {**results, host: observe(host)}
        stored = {one: observed[one] for one in HOSTS if one in observed}
        RESULTS.write_text(
            json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    for page in (PAGE, FIRST_PAGE):
        page.write_text(render(page, read_results()), encoding="utf-8")


def main(arguments: list[str]) -> int:
    hosts = [one for one in arguments if not one.startswith("--")] or list(HOSTS)
    if "--table" in arguments:
        write_tables(hosts)
        return 0
    passed = [test(host, short="--short" in arguments) for host in hosts]
    return int(not all(passed))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
