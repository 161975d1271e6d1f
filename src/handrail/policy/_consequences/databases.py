"""Finds changes to databases on other machines, by address, by variable, or by a script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from handrail.policy._consequences.table import Argv, Kind, values_of
from handrail.policy._rules.shell_command import COMPUTED, ShellCommand
from handrail.policy._shell.wrappers import program_name

SQL_CLIENTS = frozenset(
    """
    psql mysql mariadb sqlite3 duckdb mongosh mongo clickhouse-client clickhouse cqlsh sqlcmd
    sqlplus pgcli mycli litecli usql cockroach isql tsql bteq snowsql trino presto ysqlsh vsql
    """.split()
)
REDIS = frozenset("redis-cli valkey-cli keydb-cli iredis".split())
_RESTORERS = frozenset("pg_restore mongorestore mongoimport mysqlimport".split())
DATABASE_PROGRAMS = SQL_CLIENTS | REDIS | _RESTORERS | {"pg_dump", "mysqldump", "mongodump"}
"""Programs connecting to a database named by their words or variables."""
_IN_FILES = frozenset(["sqlite3", "duckdb", "litecli"])
_BY_VARIABLE = re.compile(
    r"\$\{?(?!(?:set|unset|inc|push|pull|addToSet|in|nin|gte?|lte?|ne|eq|or|and|not|match|group|exists"
    r"|regex|sum|project|sort|limit|lookup|unwind|each)\b)[A-Za-z_]"
)
"""A variable rather than a MongoDB operator."""
_BY_HOST = frozenset(["cqlsh", "ycqlsh"])
"""Clients whose operands are hosts."""
_ELSEWHERE = frozenset(["snowsql", "bteq"])
"""Clients for services."""
_LOCAL = re.compile(
    r"(?:[\w+:]+://)?(?:[^/@\s]*@)?(?:localhost|127(?:\.\d+){3}|0\.0\.0\.0|\[?::1?\]?|[\w-]+\.localhost"
    r"|host\.docker\.internal)?(?::[^/@\s]*)?(?:/|$)|(?:jdbc:)?(?:sqlite|file|duckdb|h2)\S*:"
)
_TEXTS = (
    "-c --command -e --execute --eval -Q --query -f --file -i -U -u --user --username -p --port -o"
    " --output -v --set -P --pset -n -a --pass -F --format"
).split()
"""Client flags with a value that names no database."""
_HOST_FLAGS = ("-h", "--host", "-H", "--uri", "--url", "--dsn", "-S", "--server", "--service")
_SCRIPT_FLAGS = ("-f", "--file", "-i", "--queries-file", "--init")
_STATEMENTS = frozenset("-c --command -e --execute --eval -Q --query -q".split())
_IN_WORDS = re.compile(
    r"(?:^|[\s;'\"])(?:host|hostaddr|service|server|data source)\s*=\s*'?([^\s;']+)", re.IGNORECASE
)
"""The host in a word such as ``host=db.example dbname=app``."""
_HOST_VARIABLES = re.compile(
    r"\b(?:PGHOST|PGHOSTADDR|PGSERVICE|MYSQL_HOST|REDISCLI_HOST|SQLCMDSERVER)=[\"']?([^\s\"';&|]+)"
)
_IS_SCRIPT = re.compile(r"^[^\s;]{1,200}\.(?:js|sql|cql|lua)$")
_BY_FILE = ("--defaults-file", "--defaults-extra-file", "--login-path", "--defaults-group-suffix")
"""Flags naming a file, or a part within it, with the host."""
_INPUT = re.compile(r"(?<![<\d&])<(?![<(&])\s*+(?!/dev/null)\S")
_PIPED = re.compile(r"\|\s*+(?:sudo\s+)?+(?:[\w./-]*/)?+([\w.-]+)")
_SAYS = re.compile(r"\b(?:echo|printf)\b|<<")
"""Input given by the text itself."""
_CHANGE = re.compile(
    r"\b(?:drop|truncate|delete|update|insert|replace|merge|alter|create|grant|revoke|copy|call"
    r"|flushall|flushdb|set|del|unlink|lpush|rpush|hset|sadd|xadd|incr|rename"
    r"|(?:delete|insert|update|replace)_?(?:one|many)|find_?one_?and_?\w{1,20}|bulk_?write|drop\w{1,20}"
    r"|flush_all|remove|save)\b",
    re.IGNORECASE,
)
_CONNECTS = re.compile(
    r"\b(?:connect|create_engine|MongoClient|Client|Pool|createConnection|createPool|createClient|knex"
    r"|Sequelize|Redis|from_url|new_connection|PG\.connect|Mysql2|PDO|DBI)\b"
)
_BY_ENVIRONMENT = re.compile(r"\benviron\b|\bgetenv\b|process\.env|\bENV\b|\$_ENV|Deno\.env")
_DATABASE_URL = re.compile(
    r"\b(?:jdbc:)?(?:postgres(?:ql)?|pg|mysql|mariadb|mongodb|redis|rediss|sqlserver|mssql|cockroachdb"
    r"|clickhouse|cassandra|oracle)(?:\+\w+)?://[^\s'\"]+",
    re.IGNORECASE,
)
_URL_VARIABLE = re.compile(
    r"(?:DATABASE|DB|POSTGRES|POSTGRESQL|PG|MYSQL|MONGO|MONGODB|REDIS)_?"
    r"(?:URL|URI|DSN|HOST|CONNECTION\w{0,20})=[\"']?([^\s\"';&|]+)"
)
_URL_FLAG = re.compile(
    r"\s--?(?:url|uri|dsn|database|database-url|db-url|connection(?:-string)?|target)[= ]"
    r"[\"']?"
    r"([^\s\"';&|]+)"
)
_PRODUCTION_VARIABLE = re.compile(
    r"\$\{?(?:[A-Z0-9]+_)*(?:PROD|PRODUCTION|LIVE|STAGING)(?:_[A-Z0-9]+)*_?(?:URL|URI|DSN|DB|HOST|DATABASE)\b"
)
_OF_TESTS = re.compile(r"test|local|dev|scratch|ci\b|shadow", re.IGNORECASE)
_HOST_IN_URL = re.compile(r"(?:[\w+:]+://)?(?:[^/@\s]*@)?\[?([^\s:/\]]*)")


def find_database_hosts(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a database client reads or changes a database on another machine."""
    program = program_name(argv[0])
    named = [*_find_places(argv)]
    if program in REDIS:
        named += values_of(argv, ("-u",))
    named += [word for word in values_of(argv, ("-u", "-U", "-i")) if "://" in word]
    hosts = [*values_of(argv, _HOST_FLAGS), *(word for word in named if "://" in word)]
    hosts += [host for word in argv[1:] for host in _IN_WORDS.findall(word)]
    hosts += _HOST_VARIABLES.findall(command.text)
    hosts += named if program in _BY_HOST else ()
    hosts += ["?"] if any(values_of(argv, _BY_FILE)) else ()
    runs_script = program in _RESTORERS or _runs_script(argv, command)
    changes = _changes_data(command.text)
    if program in _ELSEWHERE or any(
        not _LOCAL.match(host) and not host.startswith("/") for host in hosts
    ):
        yield "others" if changes or runs_script else "hosts"
    elif program not in _IN_FILES and (
        (changes and _BY_VARIABLE.search(command.text))
        or (runs_script and any(map(COMPUTED.search, (*named, *hosts))))
    ):
        yield "others"  # only the shell knows where the database is


def _find_places(argv: Argv) -> Iterator[str]:
    """Yield the words naming a database: operands, and ``-d`` values."""
    before = ""
    for word in argv[1:]:
        if before not in _TEXTS and not word.startswith("-"):
            yield word
        elif word.startswith("--") and word.partition("=")[0] not in _TEXTS:
            yield word.partition("=")[2]
        before = word


def _runs_script(argv: Argv, command: ShellCommand) -> bool:
    """Return whether a client runs statements missing from the text."""
    if any(values_of(argv, _SCRIPT_FLAGS)) or any(map(_IS_SCRIPT.search, argv[1:])):
        return True
    if not _STATEMENTS.isdisjoint(word.partition("=")[0] for word in argv):
        return False
    return _has_unknown_input(program_name(argv[0]), command.text)


@lru_cache(maxsize=8)
def _has_unknown_input(program: str, text: str) -> bool:
    """Return whether a program reads a file, or what another program prints."""
    is_piped = program in _PIPED.findall(text)
    return _INPUT.search(text) is not None or (is_piped and _SAYS.search(text) is None)


@lru_cache(maxsize=8)
def _changes_data(text: str) -> bool:
    return changes_rows(text)


def changes_rows(text: str) -> bool:
    """Return whether a text has a statement for changing a database."""
    return _CHANGE.search(text) is not None


def connects_elsewhere(code: str) -> bool:
    """Return whether code connects to a database from its environment, or to another machine."""
    if _CONNECTS.search(code) is None:
        return False
    return _BY_ENVIRONMENT.search(code) is not None or names_remote_database(code)


def names_remote_database(text: str) -> bool:
    """Return whether a text has or sets the address of a database elsewhere."""
    set_to = _URL_VARIABLE.findall(text)
    set_to += [value for value in _URL_FLAG.findall(text) if COMPUTED.search(value)]
    if any(map(_is_elsewhere, _IN_WORDS.findall(text))):
        return True
    return any(map(_is_remote, _DATABASE_URL.findall(text))) or any(
        not _OF_TESTS.search(value) if COMPUTED.search(value) else _is_remote(value)
        for value in set_to
    )


def names_production(text: str) -> bool:
    """Return whether a text passes on the production database, by its variable."""
    return _PRODUCTION_VARIABLE.search(text) is not None


def _is_elsewhere(host: str) -> bool:
    return "." in host and _LOCAL.match(host) is None


def _is_remote(address: str) -> bool:
    if _LOCAL.match(address.removeprefix("jdbc:")):
        return False
    found = _HOST_IN_URL.match(address.removeprefix("jdbc:"))
    return found is not None and "." in found[1]  # another name is local to this network
