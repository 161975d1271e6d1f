"""Finds losses, changes and programs in program text: SQL, and interpreter code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from handrail.policy._consequences.databases import (
    REDIS,
    SQL_CLIENTS,
    changes_rows,
    connects_elsewhere,
)
from handrail.policy._consequences.decoded_text import INTERPRETERS
from handrail.policy._consequences.requests import find_requests_in_code
from handrail.policy._consequences.table import Argv, Kind
from handrail.policy._rules.shell_command import read_shell_command
from handrail.policy._shell.wrappers import without_version

RUNS_PROGRAMS = re.compile(
    r"system|popen|subprocess|exec|spawn|pty|child_process|Popen|run\(|call\(|shell|sh\(|`|%x|qx|eval|getline|\||\.cmd\(|Command\(|Port\.open|passthru|proc_open"
)
"""Code fragments that can run a string as a command."""
_LIST = re.compile(r"""\[\s*+(?:(['"])[^'"\n]*+\1\s*+,?+\s*+)+\]""")
_STRINGS = re.compile(r"""(['"])[^'"\n]++\1(?:\s*+,\s*+\[?\s*+(?:(['"])[^'"\n]*+\2|\$\w++))++""")
"""Call arguments such as in ``System.cmd("git", ["push"])``."""
_ARGUMENT = re.compile(r"""(['"]|(?=\$))([^'"\n,\[]++)(?:\1)""")
_FILLED_IN = re.compile(r"#?\{[^{}\n]*+\}|\$\{[^{}\n]*+\}|\$\w++|%s")
"""Parts of a string known only to the program."""
_STRING = re.compile(r"""(['"])([^'"\n]*)\1""")
_SQL_LOSS = re.compile(
    r"\b(?:drop\s+(?:table|database|schema|view|index|user|role|collection|keyspace|column|owned)"
    r"|truncate\b|delete\s+from\s+\S+\s*(?:;|$|['\"]|where\s+(?:true|1\b))|dropDatabase|dropCollection"
    r"|alter\s+table\s+\S+\s+delete\b|(?:deleteMany|remove)\(\s*\{\s*\}|\.drop\(\)"
    r"|update\s+(?:[\w.\"`]+\s+){1,3}set\b(?![^;]*\bwhere\b(?!\s+(?:true|1\b))))|\bflush(?:all|db)\b",
    re.IGNORECASE | re.MULTILINE,
)
_CODE_LOSS = re.compile(
    r"\b(?:rmtree|os\.remove|os\.rmdir|removedirs|truncate|\w+\.unlink|rmSync|unlinkSync|rmdirSync"
    r"|truncateSync|fs\.(?:promises\.)?(?:rm|unlink|truncate)|FileUtils\.rm\w*|(?:File|Dir)\.(?:delete|unlink)"
    r"|unlink|rimraf|Deno\.remove\w*)\s*\((?!\s*['\"]/tmp/)|\)\.rm\("
    r"|open\([^()]*['\"]w['\"]\)\.close\("
)
_ALL_OF_IT = re.compile(
    r"\b(?:rmtree|removedirs|rmSync|rmdirSync|rm_rf?|rm_r|remove_entry\w*|remove_tree|rimraf|rm)\s*\(?\s*"
    r"(?:['\"](?:\.{1,2}/?|/|~/?|\*|\./\*)['\"]|(?:os\.|process\.|Path\.|pathlib\.Path\.|Dir\.|Deno\.)?"
    r"(?:getcwd|cwd|pwd)\b)"
)
"""Code for deleting its own working folder."""
_EACH_OF_IT = re.compile(
    r"\b(?:listdir|scandir|walk|readdirSync|readdir|children|entries)\s*+\(\s*+(?:['\"]\./?['\"])?+\s*+[),]"
    r"|(?<!\)\.)\bglob\s*+\(?+\s*+['\"](?:\./)?\*{1,2}(?:/\*)?['\"]|<\*>"
    r"|\bPath(?:\(\s*+(?:['\"]\.['\"])?+\s*+\)|\.cwd\(\))\.(?:iterdir|r?glob)\b"
)
"""Code for listing all files in a folder."""
_PERL_LOSS = re.compile(r"\b(?:unlink|rmtree|remove_tree|FileUtils\.rm\w*|File\.delete)\b")
"""The same in languages with calls without brackets."""
_RUNS_SQL = re.compile(
    r"\b(?:execute\w*|query|run|raw|command|sql|exec|prepare|aggregate|eval)\s*\("
)
_APPLICATIONS = frozenset(
    "rails rake manage.py django-admin artisan mix flask bundle symfony console iex".split()
)
"""Application programs that run code with the application's database."""
_RECORDS_LOSS = re.compile(
    r"\.(?:delete_all|destroy_all|drop_all|truncate|flush_?all|flush_?db)\b|\bRepo\.delete_all\b"
    r"|\.objects\b[^;\n]{0,200}\.delete\(\)|::(?:truncate|destroy)\(|(?:::query\(\)|->)\w{0,20}\s*->?\s*delete\(\)"
    r"|\.delete_?[mM]any\(\s*(?:\{\s*\})?\s*\)|\bdrop(?:Database|Collection|AllTables)\("
)
"""What deletes many records in the libraries for databases."""
_RUNS_FETCHED = re.compile(r"\b(?:exec|eval|compile|system|popen|spawn\w*|subprocess|Function)\b")


@lru_cache(maxsize=256)
def find_in_program_text(program: str, text: str) -> tuple[Kind, ...]:
    """Return what program text loses: in SQL, or in an interpreter's language."""
    language, is_client = without_version(program), program in SQL_CLIENTS or program in REDIS
    if is_client:
        return ("data",) if _SQL_LOSS.search(text) else ()
    if language in INTERPRETERS:
        return tuple(dict.fromkeys(_find_in_code(language, text)))
    return ("data",) if program in _APPLICATIONS and _RECORDS_LOSS.search(text) else ()


def _find_in_code(language: str, text: str) -> Iterator[Kind]:
    loses = _CODE_LOSS.search(text) or (language in ("perl", "ruby") and _PERL_LOSS.search(text))
    if loses:
        yield "files"
    if _ALL_OF_IT.search(text) or (loses and _EACH_OF_IT.search(text)):
        yield "workspace"
    if _RECORDS_LOSS.search(text) or (_RUNS_SQL.search(text) and _SQL_LOSS.search(text)):
        yield "data"
    if changes_rows(text) and connects_elsewhere(text):
        yield "others"
    for kind in find_requests_in_code(text):
        yield kind
        if _RUNS_FETCHED.search(text):
            yield "unread"


def find_quoted_commands(text: str) -> Iterator[Argv]:
    """Yield strings and lists of strings in code, such as ``subprocess.run`` arguments."""
    for found in _LIST.finditer(text):
        words = tuple(word for _, word in _STRING.findall(found[0]) if word)
        if words:
            yield words
    if RUNS_PROGRAMS.search(text):
        for found in _STRINGS.finditer(text):
            yield tuple(word for _, word in _ARGUMENT.findall(found[0]) if word)
        for _, line in _STRING.findall(text):
            known = line if _FILLED_IN.match(line) else _FILLED_IN.sub("*", line)
            yield from read_shell_command(known + "*" * known.endswith(" ")).possible
