"""Claude Code's permissions as rules of ours: what each becomes, and that nothing becomes looser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import (
    READ,
    WRITE,
    Access,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Decision,
    Deny,
    Effect,
    Spec,
)
from handrail.permissions import Verdict
from handrail.policy import InvalidRule, Level, Rulebook, parse
from handrail.policy.importers import Fate, Imported, Note, claude

DATA = Path(__file__).parents[2] / "data"
PLAIN = "a handrail allow lists plain words, then flags and operands"
PYTHON = "it allows everything that python3 can run; review it"
PATHS = "Claude Code checks paths only in Read(...) and Edit(...)"
ANY_DEPTH = "the start of the path is unknown, so it matches at any depth"
LETTERS = "in handrail a set of letters matches any letter"
TOP = "in handrail it matches only at the top of the workspace"


def settings(**permissions: Any) -> str:
    return json.dumps({"permissions": permissions})


def expected(kind: Fate, source: str, why: str, *lines: str) -> Imported:
    """One note, and under it the rule that came of it."""
    note = Note(kind, source, why)
    body = "".join(f"{line}\n" for line in (["[[rule]]", *lines] if lines else []))
    return Imported(f"# {note}\n{body}", (note,))


def any_use(command: str) -> tuple[str, str, str]:
    return f'command = "{command}"', 'flags = "any"', 'operands = "any"'


def read_in(place: str) -> tuple[str, str]:
    return 'tools = ["read", "glob", "grep"]', f'access = "read file:{place}"'


def edit_in(place: str) -> tuple[str, str]:
    return 'tools = ["edit", "write"]', f'access = "read|write file:{place}"'


ALLOWED: list[tuple[str, Fate, str, tuple[str, ...]]] = [
    ("Bash(npm run build)", "imported", "", ('command = "npm run build"',)),
    ("Bash(npm run test:*)", "imported", "", any_use("npm run test")),
    ("Bash(npm run test *)", "imported", "", any_use("npm run test")),
    ("Bash(./gradlew *)", "imported", "", any_use("./gradlew")),
    ('Bash(az list --query "[0].name")', "imported", "", ('command = "az list --query [0].name"',)),
    ("Bash(python3 *)", "imported", PYTHON, any_use("python3")),
    ("Bash(git log*)", "narrowed", "in handrail 'log' matches only that word", any_use("git log")),
    ("Bash(python3*)", "narrowed", f"in handrail 'python3' matches only that word; {PYTHON}", any_use("python3")),
    ("Bash(git * main)", "lost", PLAIN, ()),
    ("Bash(* --version)", "lost", PLAIN, ()),
    ("Bash(npm test 2>&1)", "lost", PLAIN, ()),
    ("Bash(npm ci && npm test)", "lost", PLAIN, ()),
    ('Bash(git commit -m "fix it")', "lost", PLAIN, ()),
    ("Bash(CI=1 npm test)", "lost", PLAIN, ()),
    ("Bash", "lost", "no handrail rule allows every command; mode open does, in a sandbox", ()),
    ("Bash(*)", "lost", "no handrail rule allows every command; mode open does, in a sandbox", ()),
    ("Bash(run_in_background:true)", "inert", "Claude Code ignores run_in_background", ()),
    ("Read", "imported", "", ('tools = ["read"]',)),
    ("Edit", "imported", "", ('tools = ["edit"]',)),
    ("Write", "imported", "", ('tools = ["write"]',)),
    ("TodoWrite", "imported", "", ('tools = ["TodoWrite"]',)),
    ("Edit(src/**)", "imported", "", edit_in("src/**")),
    ("Edit(/src/**/*.ts)", "imported", "", edit_in("src/**/*.ts/**")),
    ("Edit(./src/)", "narrowed", TOP, edit_in("src/**")),
    ("Read(**)", "imported", "", read_in("**")),
    ("Read(~/.zshrc)", "imported", "", read_in("~/.zshrc/**")),
    ("Read(//etc/hosts)", "imported", "", read_in("/etc/hosts/**")),
    ("Read(*.md)", "narrowed", TOP, read_in("*.md/**")),
    ("Read(src/[ab].py)", "lost", "a handrail path has no escapes and no sets of letters", ()),
    ("Edit(!src/gen/**)", "widened", "in handrail an exception to an allow needs approval", ('access = ["write|destroy file:**/src/gen/**", "write|destroy file:src/gen/**"]',)),
    ("Write(docs/**)", "inert", PATHS, ()),
    ("Glob(src/**)", "inert", PATHS, ()),
    ("WebFetch(domain:Docs.rs)", "imported", "", ('tools = ["web_fetch"]', 'access = "* net:docs.rs/**"')),
    ("WebFetch(domain:docs.rs/std)", "lost", "handrail cannot express which calls of WebFetch match", ()),
    ("mcp__github", "imported", "", ('tools = ["mcp__github__*"]',)),
    ("mcp__github__get_issue", "imported", "", ('tools = ["mcp__github__get_issue"]',)),
    ("mcp__github__get_*", "imported", "", ('tools = ["mcp__github__get_*"]',)),
    ("mcp__*", "inert", "Claude Code ignores an allow that names no tool or server", ()),
    ("Web*", "inert", "Claude Code ignores an allow that names no tool or server", ()),
    ("mcp__github__get?", "inert", "Claude Code ignores an allow that names no tool or server", ()),
    ("Agent(Explore)", "lost", "handrail cannot express which calls of Agent match", ()),
    ("Agent(model:opus)", "inert", "Claude Code ignores model", ()),
    ("Read()", "lost", "handrail cannot express which calls of Read match", ()),
    ("Bash(ls", "lost", "not a rule; a rule is TOOL or TOOL(...)", ()),
]  # fmt: skip

DENIED: list[tuple[str, Fate, str, tuple[str, ...]]] = [
    ("Bash(git push *)", "imported", "", ('command = "git push"',)),
    ("Bash(git push:*)", "imported", "", ('command = "git push"',)),
    ("Bash(export *)", "imported", "", ('command = "export"',)),
    ("Bash(npm publish)", "widened", "in handrail it matches everything that starts with npm publish", ('command = "npm publish"',)),
    ("Bash(git push --force*)", "widened", "in handrail it matches everything that starts with git push", ('command = "git push"',)),
    ("Bash(git * main)", "widened", "in handrail it matches everything that starts with git", ('command = "git"',)),
    ("Bash(curl * | sh)", "widened", "in handrail it matches everything that starts with curl", ('command = "curl"',)),
    ("Bash(./deploy.sh *)", "widened", "in handrail it matches everything that starts with deploy.sh", ('command = "deploy.sh"',)),
    ("Bash(CI=1 npm *)", "widened", "in handrail it matches everything that starts with npm", ('command = "npm"',)),
    ("Bash(echo $HOME *)", "widened", "in handrail it matches everything that starts with echo", ('command = "echo"',)),
    ("Bash(ls*)", "widened", "in handrail it matches every command", ('command = "*"',)),
    ("Bash(* --force)", "widened", "in handrail it matches every command", ('command = "*"',)),
    ("Bash(if *)", "widened", "in handrail it matches every command", ('command = "*"',)),
    ("Bash(bin/ *)", "widened", "in handrail it matches every command", ('command = "*"',)),
    ("Bash()", "widened", "in handrail it matches every command", ('command = "*"',)),
    ("Bash", "imported", "", ('command = "*"',)),
    ("Bash(git:* push)", "inert", "Claude Code reads ':*' only at the end, so this matches no command", ()),
    ("Bash(command:rm *)", "inert", "Claude Code ignores command", ()),
    ("Bash(run_in_background:true)", "imported", "", ('tools = ["bash"]', 'args = { run_in_background = { in = [true, "true"] } }')),
    ("Bash(timeout:600)", "widened", "in handrail it matches every call of Bash", ('command = "*"',)),
    ("Read", "imported", "", ('tools = ["read", "glob", "grep"]',)),
    ("Edit", "imported", "", ('tools = ["edit", "write"]',)),
    ("Read(.env)", "imported", "", ('access = ["* file:**/.env/**", "* file:.env/**"]',)),
    ("Read(./.env)", "imported", "", ('access = ["* file:**/.env/**", "* file:.env/**"]',)),
    ("Read(**/*.pem)", "imported", "", ('access = ["* file:**/*.pem/**"]',)),
    ("Read(//etc/**)", "imported", "", ('access = ["* file:/etc/**"]',)),
    ("Read(~/.ssh/**)", "imported", "", ('access = ["* file:~/.ssh/**"]',)),
    ("Read(../other/**)", "imported", "", ('access = ["* file:../other/**"]',)),
    ("Read([ab].key)", "widened", LETTERS, ('access = ["* file:**/?.key/**", "* file:?.key/**"]',)),
    (r"Read(a\ b)", "widened", LETTERS, ('access = ["* file:**/a b/**", "* file:a b/**"]',)),
    ("Edit(/gen/**)", "widened", ANY_DEPTH, ('access = ["write|destroy file:**/gen/**", "write|destroy file:gen/**"]',)),
    ("Read(!.env.example)", "lost", "handrail has no exceptions: the deny applies without it", ()),
    ("Read(file_path:*.env)", "inert", "Claude Code ignores file_path", ()),
    ("Write(gen/**)", "inert", PATHS, ()),
    ("WebFetch", "imported", "", ('tools = ["web_fetch"]',)),
    ("WebFetch(domain:*.evil.com)", "imported", "", ('access = "* net:*.evil.com/**"',)),
    ("WebFetch(domain:evil.com:80)", "widened", "in handrail it matches every call of WebFetch", ('tools = ["web_fetch"]',)),
    ("Web*", "imported", "", ('tools = ["Web*", "web_fetch", "web_search"]',)),
    ("mcp__*", "imported", "", ('tools = ["mcp__*"]',)),
    ("Agent(model:opus)", "imported", "", ('tools = ["Agent"]', 'args = { model = { in = ["opus"] } }')),
    ("Agent(model:*)", "widened", "in handrail it matches every call of Agent", ('tools = ["Agent"]',)),
    ("Agent(Explore)", "widened", "in handrail it matches every call of Agent", ('tools = ["Agent"]',)),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "kind", "why", "lines"), ALLOWED, ids=lambda one: str(one)[:30])
def test_an_allow_means_the_same_or_less(
    rule: str, kind: Fate, why: str, lines: tuple[str, ...]
) -> None:
    verdict = "ask" if rule.startswith("Edit(!") else "allow"
    head = (f'decide = "{verdict}"', *lines) if lines else ()
    assert claude.translate(settings(allow=[rule])) == expected(kind, f"allow: {rule}", why, *head)


@pytest.mark.parametrize(("rule", "kind", "why", "lines"), DENIED, ids=lambda one: str(one)[:30])
def test_a_deny_means_the_same_or_more(
    rule: str, kind: Fate, why: str, lines: tuple[str, ...]
) -> None:
    head = ('decide = "deny"', *lines) if lines else ()
    assert claude.translate(settings(deny=[rule])) == expected(kind, f"deny: {rule}", why, *head)


def test_an_ask_for_reading_is_no_ask_for_writing() -> None:
    assert claude.translate(settings(ask=["Read(notes/**)"])) == expected(
        "imported",
        "ask: Read(notes/**)",
        "",
        'decide = "ask"',
        'access = ["read file:**/notes/**", "read file:notes/**"]',
    )


def test_a_path_from_the_settings_is_lost_where_they_are_not_a_projects() -> None:
    text = settings(allow=["Edit(/src/**)"])
    assert claude.translate(text, file="~/.claude/settings.json") == expected(
        "lost", "allow: Edit(/src/**)", "the start of the path is unknown"
    )


@pytest.mark.parametrize(
    ("mode", "kind", "why", "text"),
    [
        ("plan", "imported", "", 'mode = "plan"\n'),
        ("default", "imported", "in handrail, reading needs no approval, outside the workspace too", 'mode = "ask"\n'),
        (
            "acceptEdits",
            "imported",
            "mode edits would allow every tool to write; this rule allows two, in the workspace",
            'mode = "ask"\n\n[[rule]]\ndecide = "allow"\ntools = ["edit", "write"]\naccess = "read|write file:**"\n',
        ),
        ("bypassPermissions", "lost", "an import never allows everything; use mode open with a sandbox", ""),
        ("dontAsk", "lost", "run without an approver: calls that need approval are then denied", ""),
        ("auto", "lost", "handrail has no such mode", ""),
    ],
)  # fmt: skip
def test_a_mode_is_never_looser(mode: str, kind: Fate, why: str, text: str) -> None:
    note = Note(kind, f"defaultMode: {mode}", why)
    assert claude.translate(settings(defaultMode=mode)) == Imported(f"# {note}\n{text}", (note,))


@pytest.mark.parametrize(
    ("folder", "place"),
    [("../docs/", "../docs/**"), ("~/notes", "~/notes/**"), ("/", "/**"), ("", "./**")],
)
def test_further_directories_may_be_read(folder: str, place: str) -> None:
    assert claude.translate(settings(additionalDirectories=[folder])) == expected(
        "narrowed",
        f"additionalDirectories: {folder}",
        "it allows reading in the folder, not writing",
        'decide = "allow"',
        *read_in(place),
    )


@pytest.mark.parametrize("folder", ["/a*", "/a?"])
def test_a_directory_that_would_be_a_glob_is_lost(folder: str) -> None:
    assert claude.translate(settings(additionalDirectories=[folder])) == expected(
        "lost",
        f"additionalDirectories: {folder}",
        "handrail would read * and ? in the path as wildcards",
    )


def test_what_is_no_rule_is_named_and_left_out() -> None:
    assert claude.translate(settings(disableAutoMode="disable")) == expected(
        "lost",
        'disableAutoMode: "disable"',
        "not a rule; in handrail, your application decides this",
    )


def test_settings_without_permissions_have_no_rules() -> None:
    assert claude.translate("{}") == Imported("", ())


def test_a_whole_file_comes_out_as_written_down() -> None:
    made = claude.translate((DATA / "import-claude.json").read_text(encoding="utf-8"))
    assert made.text == (DATA / "import-claude-ours.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n"permissions": }', "settings.json:2: invalid JSON: Expecting value"),
        ("[" * 100_000, "settings.json: the JSON is nested too deeply"),
        ("[]", "settings.json: the file must be a JSON object"),
        ('{"permissions": []}', "settings.json: permissions must be a JSON object"),
        ('{"permissions": {"deny": "Bash"}}', "settings.json: deny must be a list of strings"),
        ('{"permissions": {"deny": [1]}}', "settings.json: deny must be a list of strings"),
    ],
)
def test_what_is_no_settings_file_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidRule) as refused:
        claude.translate(text, file="settings.json")
    assert str(refused.value) == message


def test_half_a_character_is_refused() -> None:
    with pytest.raises(InvalidRule):
        claude.translate(settings(deny=["Read(\ud800)"]))


# What follows reads the rules as Claude Code does, and holds ours against it.


def means(rule: str, tool: str, what: str, verdict: Verdict) -> bool:
    """Whether a rule means a command, a path or a host, as its documents say."""
    name, _, spec = rule.rstrip(")").partition("(")
    if name != tool:
        return False
    if tool == "Bash":
        return command_glob(spec).fullmatch(what) is not None
    if tool == "WebFetch":
        return spec == f"domain:{what}"
    return path_glob(spec, anywhere=verdict != "allow").fullmatch(what) is not None


def command_glob(spec: str) -> re.Pattern[str]:
    text = f"{spec[:-2]} *" if spec.endswith(":*") else spec
    tail = "(?: .*)?" if text.endswith(" *") else ""
    head = text.removesuffix(" *") if tail else text
    return re.compile(".*".join(map(re.escape, head.split("*"))) + tail)


def path_glob(spec: str, *, anywhere: bool) -> re.Pattern[str]:
    text = re.sub(r"(?:/\*\*)+$", "", spec.removeprefix("./"))
    steps = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
    parts = re.split(r"(\*\*/|\*\*|\*)", text)
    body = "".join(steps.get(part) or re.escape(part) for part in parts)
    return re.compile(("(?:.*/)?" if anywhere else "") + body + "(?:/.*)?")


def theirs(rules: dict[Verdict, list[str]], tool: str, whats: list[str]) -> Verdict | None:
    """The verdict of the rules: deny, then ask, then allow; of several commands each counts."""
    strict: list[Verdict] = ["deny", "ask"]
    for verdict in strict:
        if any(means(rule, tool, what, verdict) for rule in rules[verdict] for what in whats):
            return verdict
    allowed = all(any(means(rule, tool, one, "allow") for rule in rules["allow"]) for one in whats)
    return "allow" if allowed else None


def ours(text: str, tool: str, access: Access, **args: str) -> Decision:
    book = Rulebook(parse(text, file="imported", level=Level.USER).rules, root=False)
    effect = max(access.verb, Effect.READ)
    spec = Spec(name=tool, description="", input_schema={}, effect=effect)
    return book(CheckedCall.recorded(Call(tool, args, "1"), spec, (access,)))


def check(source: Verdict | None, decision: Decision) -> None:
    by_mode = decision.origin is not None and decision.origin.rule.startswith("mode ")
    if source == "deny":
        assert isinstance(decision, Deny)
    elif source == "ask":
        assert isinstance(decision, Ask | Deny)
    elif isinstance(decision, Allow) and not by_mode:
        assert source == "allow"


WORDS = st.sampled_from(["git", "push", "log", "npm", "run", "sudo", "-f", "./x", "main"])
COMMANDS = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
SUFFIXES = st.sampled_from(["", " *", ":*", "*", " * main", "* *"])
BASH = st.builds("Bash({}{})".format, COMMANDS, SUFFIXES)
NAMES = st.sampled_from([".env", "src", "a", "*", "**", "*.py", "b.py"])
PATTERNS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
PATH_RULES = st.builds("{}({}{})".format, st.sampled_from(["Read", "Edit"]), st.sampled_from(["", "./"]), PATTERNS)  # fmt: skip
FETCHES = st.sampled_from(["WebFetch(domain:a.com)", "WebFetch(domain:b.com)"])


def lists(rules: st.SearchStrategy[str]) -> st.SearchStrategy[dict[Verdict, list[str]]]:
    several = st.lists(rules, max_size=3)
    return st.fixed_dictionaries({"deny": several, "ask": several, "allow": several})


@given(lists(BASH), st.lists(COMMANDS, min_size=1, max_size=3), st.sampled_from([" && ", " | ", "; "]))  # fmt: skip
def test_no_command_is_allowed_that_was_asked_about_or_denied(
    rules: dict[Verdict, list[str]], commands: list[str], joint: str
) -> None:
    text = claude.translate(json.dumps({"permissions": rules})).text
    decision = ours(text, "bash", Access(WRITE, "*"), command=joint.join(commands))
    check(theirs(rules, "Bash", commands), decision)


@given(lists(PATH_RULES), st.lists(st.sampled_from([".env", "src", "a", "b.py"]), min_size=1, max_size=4))  # fmt: skip
def test_no_file_is_touched_that_was_asked_about_or_denied(
    rules: dict[Verdict, list[str]], names: list[str]
) -> None:
    text = claude.translate(json.dumps({"permissions": rules})).text
    path = "/".join(names)
    check(theirs(rules, "Read", [path]), ours(text, "read", Access(READ, f"file:{path}")))
    check(theirs(rules, "Edit", [path]), ours(text, "edit", Access(WRITE, f"file:{path}")))
    check(theirs(rules, "Write", [path]), ours(text, "other", Access(WRITE, f"file:{path}")))


@given(lists(FETCHES), st.sampled_from(["a.com", "b.com", "c.com"]))
def test_no_host_is_reached_that_was_asked_about_or_denied(
    rules: dict[Verdict, list[str]], host: str
) -> None:
    text = claude.translate(json.dumps({"permissions": rules})).text
    decision = ours(text, "web_fetch", Access(WRITE, f"net:{host}:443"))
    check(theirs(rules, "WebFetch", [host]), decision)


TEXT = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]))
TOOLS = st.sampled_from(["Bash", "Read", "Edit", "WebFetch", "mcp__a", "Agent", "Write"])
RULES = TEXT | st.builds("{}({})".format, TOOLS, TEXT)


@given(st.sampled_from(["deny", "ask", "allow"]), RULES)
def test_whatever_stands_there_comes_out_as_a_file_with_one_note(verdict: str, rule: str) -> None:
    made = claude.translate(json.dumps({"permissions": {verdict: [rule]}}))
    assert [note.source for note in made.notes] == [f"{verdict}: {rule}"]
    assert ("[[rule]]" in made.text) == (len(parse(made.text, file="", level=Level.USER).rules) > 0)
    if verdict != "allow":
        assert made.notes[0].kind != "narrowed"
