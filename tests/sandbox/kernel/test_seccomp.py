"""The filter for system calls, run on a machine of our own for both kinds of processors."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest

from handrail.sandbox import SandboxUnavailable
from handrail.sandbox._kernel import seccomp
from sandbox.kernel.bpf_machine import answer

ALLOW = 0x7FFF0000
KILL = 0x80000000
REFUSE = 0x00050000 | errno.EPERM
MISSING = 0x00050000 | errno.ENOSYS
X86, ARM = "Linux x86_64", "Linux aarch64"
HEADERS = {
    X86: Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    ARM: Path("/usr/include/asm-generic/unistd.h"),
}
COMMON = {
    X86: {"read": 0, "write": 1, "openat": 257, "execve": 59, "fork": 57, "connect": 42},
    ARM: {"read": 63, "write": 64, "openat": 56, "execve": 221, "connect": 203, "bind": 200},
}
machines = pytest.mark.parametrize("machine", [X86, ARM])


class Filter:
    """A filter on one processor."""

    def __init__(self, machine: str, families: tuple[int, ...] = seccomp.INTERNET) -> None:
        self.about = seccomp.ARCHITECTURES[machine]
        self._program = seccomp.assemble_filter(families, machine)

    def says(self, number: int, *args: int) -> int:
        return answer(self._program, self.about.audit, number, args)

    def elsewhere(self, audit: int) -> int:
        return answer(self._program, audit, 0)


@machines
def test_what_commands_need_is_allowed(machine: str) -> None:
    made = Filter(machine)

    assert {made.says(number) for number in COMMON[machine].values()} == {ALLOW}


@machines
def test_what_no_command_needs_is_refused(machine: str) -> None:
    made = Filter(machine)

    assert {
        name: made.says(number) for name, number in made.about.refused.items()
    } == dict.fromkeys(made.about.refused, REFUSE)


@machines
def test_a_call_of_another_kind_of_processor_kills(machine: str) -> None:
    i386, arm = 0x40000003, 0x40000028

    assert [Filter(machine).elsewhere(one) for one in (i386, arm, 0)] == [KILL] * 3


def test_the_x32_twin_of_each_call_is_refused() -> None:
    made = Filter(X86)

    assert {made.says(0x40000000 | number) for number in range(600)} == {REFUSE}


@machines
def test_sockets_are_of_the_families_that_are_named(machine: str) -> None:
    families = range(-1, 50)
    inside, none = Filter(machine), Filter(machine, ())

    assert [one for one in families if inside.says(inside.about.socket, one) == ALLOW] == [2, 10]
    assert [one for one in families if none.says(none.about.socket, one) == ALLOW] == []
    assert [one for one in families if none.says(none.about.socketpair, one, 1) == ALLOW] == [1]


@machines
def test_a_pair_of_sockets_stays_a_pair(machine: str) -> None:
    made, high = Filter(machine), 7 << 32
    flags = (0, 0o4000, 0o2000000, 0o2004000)
    kinds = {one for one in range(16) if made.says(made.about.socketpair, 1, one) == ALLOW}

    assert kinds == {1, 5}  # not 2, SOCK_DGRAM: it could be pointed at any other
    assert {made.says(made.about.socketpair, 1, high | 5 | one) for one in flags} == {ALLOW}
    assert {made.says(made.about.socketpair, 1, high | 2 | one) for one in flags} == {REFUSE}


@machines
def test_what_processes_share_by_number_is_refused_where_it_is_the_hosts(machine: str) -> None:
    own, shared = Filter(machine), Filter(machine, ())
    numbers = own.about.shared.values()

    assert {own.says(one) for one in numbers} == {ALLOW}
    assert {shared.says(one) for one in numbers} == {REFUSE}


@machines
def test_only_the_half_that_the_kernel_reads_counts(machine: str) -> None:
    made, high = Filter(machine), 7 << 32

    assert made.says(made.about.socket, high | 2) == ALLOW
    assert made.says(made.about.socket, high | 1) == REFUSE
    assert made.says(made.about.ioctl, 0, high | 0x5412) == REFUSE


@machines
def test_terminals_take_no_input_from_commands(machine: str) -> None:
    made = Filter(machine)
    asked = (0x5412, 0x541C, 0x5413, 0x5401)

    assert [made.says(made.about.ioctl, 0, one) for one in asked] == [REFUSE, REFUSE, ALLOW, ALLOW]


@machines
def test_processes_and_threads_are_made_but_no_namespaces(machine: str) -> None:
    made = Filter(machine)
    thread, process = 0x3D0F00, 0x01200011
    spaces = [1 << bit for bit in (7, 17, 25, 26, 27, 28, 29, 30)]

    for number in (made.about.clone, made.about.unshare):
        assert [made.says(number, one) for one in (thread, process, 0)] == [ALLOW] * 3
        assert [made.says(number, process | one) for one in spaces] == [REFUSE] * 8
    assert made.says(made.about.clone3) == MISSING


@machines
def test_the_mark_of_a_command_can_be_read_and_not_changed(machine: str) -> None:
    made, pointer = Filter(machine), 0x7FFC_0000_1000
    high = 0x7FFC << 32  # its low half is zero

    assert made.says(made.about.prlimit, 0, seccomp.TAG, 0, pointer) == ALLOW
    assert made.says(made.about.prlimit, 0, seccomp.TAG, pointer) == REFUSE
    assert made.says(made.about.prlimit, 0, seccomp.TAG, high) == REFUSE
    assert made.says(made.about.prlimit, 0, 7, pointer) == ALLOW
    assert made.says(made.about.prlimit, 99, 7, pointer) == REFUSE  # another's, which can kill
    assert made.says(made.about.prlimit, 99, 7, 0, pointer) == ALLOW
    assert made.says(made.about.setrlimit, seccomp.TAG, pointer) == REFUSE
    assert made.says(made.about.setrlimit, 7, pointer) == ALLOW


@machines
def test_scheduling_is_for_the_caller_alone_where_others_can_be_reached(machine: str) -> None:
    made, alone = Filter(machine, ()), Filter(machine)
    numbers = dict(made.about.scheduling)
    priority, io = numbers.pop("setpriority"), numbers.pop("ioprio_set")

    assert {made.says(number, 0, 7) for number in numbers.values()} == {ALLOW}
    assert {made.says(number, 99, 7) for number in numbers.values()} == {REFUSE}
    kinds = [(kind, who) for kind in range(4) for who in (0, 99)]
    assert [one for one in kinds if made.says(priority, *one) == ALLOW] == [(0, 0)]
    assert [one for one in kinds if made.says(io, *one) == ALLOW] == [(1, 0)]
    every = alone.about.scheduling.values()
    assert {alone.says(number, 2, 99) for number in every} == {ALLOW}  # it sees no others


@machines
def test_the_numbers_are_those_of_the_kernel(machine: str) -> None:
    header = HEADERS[machine]
    if not header.exists():
        pytest.skip("the kernel's headers are not installed")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text(encoding="utf-8"))
    known = {name: int(number) for name, number in found}
    about = seccomp.ARCHITECTURES[machine]
    ours = (
        about.refused
        | about.shared
        | about.scheduling
        | {
            "clone": about.clone,
            "clone3": about.clone3,
            "ioctl": about.ioctl,
            "prlimit64": about.prlimit,
            "setrlimit": about.setrlimit,
            "socket": about.socket,
            "socketpair": about.socketpair,
            "unshare": about.unshare,
        }
    )

    assert ours == {name: known[name] for name in ours}


def test_another_system_has_no_filter_and_so_no_sandbox() -> None:
    with pytest.raises(SandboxUnavailable, match="not Darwin arm64"):
        seccomp.assemble_filter((), "Darwin arm64")
