"""What the rough reader finds: every command that a line could run, and not what only looks so."""

from __future__ import annotations

import os
import sys
from types import FrameType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handrail.policy._shell.rough import possible_commands, possible_redirects
from handrail.policy._shell.wrappers import matches


def runs(text: str, *words: str) -> bool:
    return any(matches(argv, words) for argv in possible_commands(text))


HIDDEN = [
    "<<E\n><'`curl x`'E'",
    '"$@" curl x',
    '"${@}" curl x',
    '"${a[@]}" curl x',
    "a[ b\n#`curl x`]=1",
    "curl x `",
    "$[1<<'E']\ncurl x\nE]",
    "a[1 <<'E']=5\ncurl x\nE]=5",
    "$(echo curl) x",
    "`echo curl` x",
    '"$(which curl)" x',
    "test -v 'a[$(curl x)]'",
    '$"curl" x',
    "curl x $'",
    "echo curl > s; . ./s",
    "git -c protocol.ext.allow=always ls-remote 'ext::curl x'",
    "sort --compress-prog=curl x",
    "man -Pcurl x",
    "sudo awk '{x | \"curl\"}'",
    "su -ccurl",
    "cat <<'E' 'a\nb'\ncurl x\nE",
    "cat <<E1 <<'E2'\nE1\nE2\ncurl x",
    "cat <<-E\n\tE\ncurl x\nE",
    "echo $(cat <<'E')\ncurl x\nE",
    "cat <<$x\ncurl x\n$x",
    "cat <<E\n`curl x`\nE",
    'cat <<E\n\\$(ls) "$(curl x)\nE',
    "echo $(((((curl x",
    '"$(' * 40 + "curl x",
    "${x:-" * 40 + "$(curl x)",
    "sudo " + "-a='b c' " * 300 + "sh -c 'sh -c \"sh -c curl\"'",
    "sh -c '" + "x " * 10_000 + "'; sh -c 'curl x'",
    "eval " * 12 + "'eval \\'curl x\\''",
    " {a..z}" * 60 + "; curl x",
    "ls" + " &>x" * 12 + " curl y",
    "for f in curl; do $f x; done",
    "foreach f in curl; { $f x }",
    "{curl x}",
    "x[1]=curl; ${x[1]} y",
    "c=c; c+=url; $c x",
    "echo ${x:-<(curl y)}",
    "case x in (x) curl y;; esac",
    'echo "$( (case x in a) ls;; esac); curl y )"',
    '"cu"rl x',
    "c\\url x",
    "cu\\\nrl x",
    "curl x $(",
    "f(){ curl x; }; f",
    "echo $(curl x)",
    "echo `curl x`",
    'echo "$(curl x)"',
    "cat <(curl x)",
    "{curl,x}",
    "c{u,}rl",
    "$'\\x63url' x",
    "cu$@rl x",
    "cu${x}rl x",
    "c=curl; $c x",
    "a=cu;b=rl;$a$b x",
    "curl${IFS}x",
    "curl$IFS.$IFS",
    "${x:-curl} y",
    "for c in ls curl; do $c x; done",
    "cat <<EOF\n$(curl x)\nEOF",
    "bash <<'EOF'\ncurl x\nEOF",
    "cat <<'EOF' | bash\ncurl x\nEOF",
    "bash <<< 'curl x'",
    "bash <<<curl",
    "echo 'curl x' | sh",
    "echo curl x | bash",
    "> x curl y",
    "2>/dev/null curl y",
    "A=1 B=2 curl x",
    "if curl x; then y; fi",
    "while ! curl x; do :; done",
    "case x in x) curl y;; esac",
    '"$(case x in x) curl y;; esac)"',
    "coproc curl x",
    "coproc N { curl x; }",
    "time -p curl x",
    "! curl",
    "(curl x)",
    "{ curl x; }",
    "function f { curl x; }",
    "ls & curl x",
    "ls |& curl",
    "ls &>/dev/null curl",
    "env -S 'curl x'",
    "env -i A=b curl x",
    "sudo -u root curl x",
    "su -c 'curl x'",
    "su root -c'curl x'",
    "xargs -n1 curl",
    "find . -exec sh -c 'curl x' ';'",
    "find . -exec sudo curl {} +",
    "eval 'c=cu; ${c}rl x'",
    "eval \"c=curl;\" '$c' x",
    "trap 'curl x' EXIT",
    "ssh host 'cd /; curl x'",
    "docker exec -it c curl x",
    "docker run --rm img sh -c 'curl x'",
    "kubectl exec pod -- curl x",
    "npx -y curl",
    "uvx curl",
    "git -c alias.x='!curl y' x",
    "tar cf x --checkpoint-action=exec='curl x'",
    "tar --checkpoint-action=exec=curl",
    "timeout 5 bash -c 'bash -c \"curl x\"'",
    "command curl",
    "builtin eval curl",
    "exec curl",
    "PAGER='curl x' git log",
    "GIT_SSH_COMMAND=curl git fetch",
    "=curl x",
    "cu?l x",
    "/usr/bin/c*l x",
    "c[u]rl x",
    'set -- curl x; "$@"',
    'a=(curl x); "${a[@]}"',
    "alias ls='curl x'; ls",
    "mapfile -C curl -c 1 x",
    "python3 -c 'import os;os.system(\"curl x\")'",
    "awk 'BEGIN{system(\"curl x\")}'",
    "[[ x ]] && curl y",
    "((x)) && curl",
    "echo $((1<<2)); curl x",
    ": $((1<<'E'))\ncurl x\nE",
    "# <<'E'\ncurl x\nE",
    "cat <<\"E'F\"\nE'F\ncurl x\nEF",
    "cat <<'EOF'\r\nEOF\r\ncurl x\nEOF",
    "cat <<E\nE\\\n\ncurl\nE",
    "\\curl x",
    "'curl' x",
    "cat <<'E' $(echo\n)\ncurl x\nE",
    "$(echo curl) ; cu''rl",
    "curl\tx",
    'echo "${x:-$(curl y)}"',
    "echo ${x:-`curl y`}",
    "git bisect run curl x",
    "`curl`",
    '"`curl x`"',
    "nohup nice -n 5 curl x &",
    "bash -c $'curl\\tx'",
    "busybox sh -c 'curl x'",
    "echo a\\\n; curl x",
    "{ \ncurl x\n}",
    "if true\nthen\ncurl x\nfi",
    "cat > x.sh <<'EOF'\ncurl x\nEOF\nbash x.sh",
    "echo | xargs -I{} sh -c 'curl {}'",
    "rsync -e 'curl x' a b",
    "tar -Icurl",
    "cat <<A <<'B'\n$(curl x)\nA\nB",
    "entr -c curl x",
    "parallel 'curl {}' ::: a",
    "at now <<< 'curl x'",
    "script -qc 'curl x' /dev/null",
    "watch -n1 'curl x'",
    "strace -f curl",
    "flock /tmp/l -c 'curl x'",
    "chroot / curl x",
    "nsenter -t 1 -m curl",
    "curl x",
    'echo "a\\""; curl x',
    "echo '\"'; curl x #\"",
    "cat << \\EOF\nEOF\ncurl x\nEOF",
    "curl<x",
    "curl>x",
    "ls;curl",
    "ls|curl",
    "$(curl)",
    "((curl))",
    "time curl",
    "X=$(curl y) ls",
    "$\\\n(curl x)",
    "export c=curl; $c x",
    "noglob curl x",
    "repeat 3 curl x",
    "- curl x",
    "bash -c \"$(cat <<'EOF'\ncurl x\nEOF\n)\"",
]
HARMLESS = [
    "git diff -- curl",
    "n=$(grep -c curl f)",
    "find . -name curl -exec ls {} ';'",
    "docker ps curl",
    "kubectl get pods curl",
    "cat <<-'E'\n\tcurl x\n\tE\nls",
    "python script.py > log; echo 'curl done'",
    "cat <<E\ncurl $x \\$(curl y)\nE",
    "case x in curl) ls;; esac",
    "echo ${x:-curl} \"${y:-'curl x'}\"",
    "git rebase --exec",
    "command -V curl",
    "echo curl",
    "git log --grep=curl",
    "grep -rn curl .",
    "cat <<'EOF'\n curl x\ncurl y\nEOF",
    "git commit -m 'use curl; curl x'",
    "git commit -m \"$(cat <<'EOF'\nfix\n\ncurl x\nEOF\n)\"",
    "command -v curl",
    "which curl",
    "ls # curl",
    "echo 'curl x' > f",
    "cat > f <<EOF\ncurl x\nEOF",
    "rg 'curl x'",
    "find . -name curl",
    "docker build -t curl .",
    "python -m pytest -k 'curl or rm'",
    'echo "; curl x"',
    "apt list curl",
    "ls curl",
    "./curlish",
    "a=curl; echo $a",
    "ls",
    "for f in curl rm; do echo $f; done",
    "git log -S'curl x' --oneline",
    "if command -v curl >/dev/null; then ls; fi",
    "sed -n '/curl/p' x",
    "curlx",
    "uv add curl",
    "npm install curl",
    "cat <<'EOF' > x\n$(curl x)\nEOF\nls",
]


@pytest.mark.parametrize("text", HIDDEN, ids=ascii)
def test_a_command_is_found_wherever_it_hides(text: str) -> None:
    assert runs(text, "curl")


@pytest.mark.parametrize("text", HARMLESS, ids=ascii)
def test_a_word_that_is_no_command_is_not_taken_for_one(text: str) -> None:
    assert not runs(text, "curl")


PUSHES = {
    "git push": True,
    "git  \tpush origin": True,
    "git -C . push": True,
    "git -c a=b --no-pager push": True,
    "git -c a=b -C x -- push": True,
    "sudo git -C a push": True,
    "git <<< x push": True,
    "git pu?h": True,
    "g*t push": True,
    "/usr/bin/git push": True,
    "git log push": False,
    "git stash push": False,
    "git commit -m x push": False,
    "git": False,
    "git -C push": True,  # which may be a folder, or may not
}


@pytest.mark.parametrize("text", PUSHES)
def test_a_rule_names_a_command_by_its_words_with_options_between(text: str) -> None:
    assert runs(text, "git", "push") == PUSHES[text]


def test_a_rule_may_name_an_option() -> None:
    assert runs("rm -v -rf x", "rm", "-rf")
    assert not runs("rm -v x", "rm", "-rf")


def test_nothing_matches_nothing() -> None:
    assert not matches((), ("a",))
    assert not matches(("a",), ())
    assert not matches(("[", "a"), ("b",))


def test_a_line_gives_its_commands_wrapped_and_unwrapped_each_once_and_in_order() -> None:
    assert possible_commands("ls; sudo -n env A=1 sh -c 'rm x'; ls") == (
        ("ls",),
        ("sudo", "-n", "env", "A=1", "sh", "-c", "rm x"),
        ("-n", "env", "A=1", "sh", "-c", "rm x"),
        ("env", "A=1", "sh", "-c", "rm x"),
        ("A=1", "sh", "-c", "rm x"),
        ("sh", "-c", "rm x"),
        ("-c", "rm x"),
        ("rm x",),
        ("1",),
        ("rm", "x"),
    )


FILES = {
    "cat < .env > out 2>&1 2>>err &>all >&both 3<>rw >|c <<<x >&-": (
        ".env",
        "out",
        "err",
        "all",
        "both",
        "rw",
        "c",
    ),
    "echo x 1>a{b,c}d": ("a{b,c}d",),
    "{fd}>named; > first ls": ("named", "first"),
    "sh -c 'cat > inner'; cat > \"a $x b\"": ("a  b", "inner"),
    "ls >": (),
    "cat <<E\n$(ls > deep)\nE": ("deep",),
    "x=name; ls > $x.txt > ${y:-none} > ${x}": ("name.txt", "none", "name"),
    "ls > >(tee x) > y": ("y",),
}


@pytest.mark.parametrize("text", FILES)
def test_a_redirection_gives_its_file(text: str) -> None:
    assert possible_redirects(text) == FILES[text]


ODD = {
    "$'\\x41\\101\\u0042\\U43\\n\\cA\\q\\'' $'a\\0b'c $'\\Uffffffff' $'": [
        ("AABC\n\x01q'", "ac", "\U0010ffff", "")
    ],
    "a{b,c{d,e}}f {x..z} {,} '{a,b}' {a}": [
        ("abf", "acdf", "abf", "acef", "x", "y", "z", "{a,b}", "{a}")
    ],
    'echo "\\a\\"\\\n\\$" \\': [("echo", '\\a"$', "")],
    "a \"'\" '\"' \\' \\\" b": [("a", "'", '"', "'", '"', "b")],
    "echo $ a$": [("echo", "$", "a$")],
    "echo ${x} ${#x} ${!x} ${x[1]} \"${x:-'}\" ${x:->y} ${x/a/'}'} z": [("echo", "'", ">y", "z")],
    "a+=b; a+=c; $a": [("bc",)],
    "x=$(ls)": [("ls",)],
    "for": [("for",)],
    "a;)b": [("a",), ("b",)],
    "a &>b c": [("a", "c"), ("c",)],
}


@pytest.mark.parametrize("text", ODD, ids=ascii)
def test_odd_words_are_spelled_as_bash_spells_them(text: str) -> None:
    found = possible_commands(text)
    assert [argv for argv in ODD[text] if argv not in found] == []


LENGTH = 20_000 if os.environ.get("HANDRAIL_PROFILE") == "soak" else 8_000
MANY = "'\"\\$`(){}<>|&;\n\t #=a!*?[]~,.-"
PARTS = [
    *MANY, "$(", "${", "<<", "<<E\n", "E\n", "case ", "esac ", "for a in ", "$'", "\\\n", "bash -c ", "sudo ", "eval ", "ssh ",
    "find -exec ", "&>x ", "a=$a$a;", "{a,b}", "<<'E'\n", "$((", "<(", ":-", "a ", "=b ", " xargs ", "'a b' ", "-x ", "\ue000", "\ud800",
]  # fmt: skip


@given(st.lists(st.sampled_from(PARTS)).map("".join) | st.text())
@example("$'\\U" + "f" * 8 + "'")
def test_no_text_is_too_odd_to_be_read(text: str) -> None:
    assert all(possible_commands(text))
    assert all(possible_redirects(text))


@pytest.mark.parametrize(
    "part",
    [
        *PARTS,
        "{" + "," * 30_000,
        "a" + "\n" * 30_000,
        '"$(',
        "${x:-",
        "{a,b}{a,b},",
        "<<a <<b ",
        "ssh <<<",
        "sudo -x=y ",
        "a=a$a$a;",
        "[",
        "for a in b;\n\n\n",
        "<<a 'b\n' ",
        "{a..z}",
    ],
    ids=ascii,
)
def test_work_grows_with_the_text_and_no_faster(part: str) -> None:
    text = (part * LENGTH)[:LENGTH]

    assert work(text) < 6 * work(text[: LENGTH // 4]) + 5_000


def work(text: str) -> int:
    """How many functions are called, for a clock would say more about the machine."""
    calls = 0

    def count(_frame: FrameType, _event: str, _what: object) -> None:
        nonlocal calls
        calls += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        possible_commands(text)
    finally:
        sys.setprofile(before)
    return calls
