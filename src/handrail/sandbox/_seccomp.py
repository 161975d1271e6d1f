"""Which system calls a command may not make: a filter for the kernel, assembled here."""

from __future__ import annotations

import errno
import platform
import resource
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from handrail.sandbox import _bpf as bpf
from handrail.sandbox._words import Unavailable

_X32: Final = 0x40000000
_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C
_NAMESPACES: Final = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME."""
_CONNECTED: Final = tuple(
    kind | flags for kind in (1, 5) for flags in (0, 0o4000, 0o2000000, 0o2004000)
)
"""SOCK_STREAM and SOCK_SEQPACKET, with SOCK_NONBLOCK and SOCK_CLOEXEC or without. They stay with
their pair; one of the kind SOCK_DGRAM could be pointed at any daemon's socket."""
TAG: Final = resource.RLIMIT_RTTIME
"""The limit that marks who belongs to a command. Once set, a command cannot change it."""
UNIX: Final = 1
INTERNET: Final = (2, 10)
"""AF_INET and AF_INET6: only where the network namespace is the command's own."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """What a filter has to know of a processor."""

    audit: int
    refused: dict[str, int]
    shared: dict[str, int]
    """Memory and queues that processes share by a number."""
    clone: int
    clone3: int
    ioctl: int
    prlimit: int
    setrlimit: int
    socket: int
    socketpair: int
    unshare: int
    x32: bool = False


_REFUSED: Final = """
    acct add_key adjtimex bpf chroot clock_adjtime clock_settime delete_module fanotify_init
    finit_module fsconfig fsmount fsopen fspick init_module io_uring_enter io_uring_register
    io_uring_setup kcmp kexec_file_load kexec_load keyctl mount mount_setattr move_mount
    open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root process_vm_readv
    process_vm_writev ptrace quotactl quotactl_fd reboot request_key setdomainname sethostname
    setns settimeofday swapoff swapon syslog umount2 userfaultfd vhangup
""".split()
_X86: Final = """
    163 248 159 321 161 305 227 176 300 313 431 432 430 433 175 426 427 425 312 320 246 250 165 442
    429 304 428 298 438 155 310 311 101 179 443 169 249 171 170 308 164 168 167 103 166 323 153
""".split()
_ARM: Final = """
    89 217 171 280 51 266 112 106 262 273 431 432 430 433 105 426 427 425 272 294 104 219 40 442
    429 265 428 241 438 41 270 271 117 60 443 142 218 162 161 268 170 225 224 116 39 282 58
""".split()
_SHARED: Final = """
    mq_open mq_unlink msgctl msgget msgrcv msgsnd semctl semget semop semtimedop shmat shmctl shmget
""".split()
_SHARED_X86: Final = "240 241 71 68 70 69 66 64 65 220 30 31 29".split()
_SHARED_ARM: Final = "180 181 187 186 188 189 191 190 193 192 196 195 194".split()

ARCHITECTURES: Final = {
    "Linux x86_64": Architecture(
        audit=0xC000003E,
        refused={n: int(k) for n, k in zip(_REFUSED, _X86, strict=True)}
        | {"ioperm": 173, "iopl": 172},
        shared={n: int(k) for n, k in zip(_SHARED, _SHARED_X86, strict=True)},
        clone=56,
        clone3=435,
        ioctl=16,
        prlimit=302,
        setrlimit=160,
        socket=41,
        socketpair=53,
        unshare=272,
        x32=True,
    ),
    "Linux aarch64": Architecture(
        audit=0xC00000B7,
        refused={n: int(k) for n, k in zip(_REFUSED, _ARM, strict=True)},
        shared={n: int(k) for n, k in zip(_SHARED, _SHARED_ARM, strict=True)},
        clone=220,
        clone3=435,
        ioctl=29,
        prlimit=261,
        setrlimit=164,
        socket=198,
        socketpair=199,
        unshare=97,
    ),
}


def program(families: Collection[int], machine: str = "") -> bytes:
    """A filter that refuses what a command never needs, and sockets of other families.

    A refused call fails with EPERM, as if the user lacked the right. ``clone3`` hides its flags
    from the filter, so it does not exist here; libraries fall back to ``clone``. Without families,
    the namespaces are the host's, so memory and queues of other processes are refused too.
    """
    machine = machine or f"{platform.system()} {platform.machine()}"
    if machine not in ARCHITECTURES:
        raise Unavailable(
            f"there is a sandbox for {' and '.join(ARCHITECTURES)}, not for {machine}"
        )
    here = ARCHITECTURES[machine]
    code = bpf.Program()
    code.load(bpf.ARCHITECTURE)
    code.equal(here.audit, otherwise="kill")
    code.load(bpf.NUMBER)
    if here.x32:
        code.at_least(_X32, "refuse")
    refused = here.refused if families else here.refused | here.shared
    for number in sorted(refused.values()):
        code.equal(number, "refuse")
    code.equal(here.clone3, "missing")
    for number, place in (
        (here.clone, "namespaces"),
        (here.unshare, "namespaces"),
        (here.ioctl, "terminal"),
        (here.prlimit, "prlimit"),
        (here.setrlimit, "setrlimit"),
        (here.socket, "family"),
        (here.socketpair, "pair"),
    ):
        code.equal(number, place)
    code.answer(bpf.ALLOW)
    _arguments(code, families)
    for place, what in (
        ("refuse", bpf.ERRNO | errno.EPERM),
        ("missing", bpf.ERRNO | errno.ENOSYS),
        ("kill", bpf.KILL),
    ):
        code.place(place)
        code.answer(what)
    return code.assemble()


def _arguments(code: bpf.Program, families: Collection[int]) -> None:
    """Calls that are refused for their arguments. Jumps go forwards, so each has its answer."""
    code.place("namespaces")
    code.load(bpf.argument(0))
    code.any_bit(_NAMESPACES, "refuse", "fine")
    code.place("terminal")
    code.load(bpf.argument(1))
    code.equal(_TIOCSTI, "refuse")
    code.equal(_TIOCLINUX, "refuse", "fine")
    _limits(code)
    code.place("pair")
    code.load(bpf.argument(0))
    code.equal(UNIX, otherwise="refuse")
    code.load(bpf.argument(1))
    for kind in _CONNECTED:
        code.equal(kind, "fine")
    code.always("refuse")
    code.place("family")
    code.load(bpf.argument(0))
    for family in families:
        code.equal(family, "fine")
    code.always("refuse")
    code.place("fine")
    code.answer(bpf.ALLOW)


def _limits(code: bpf.Program) -> None:
    """The mark stays as it is, and limits are one's own."""
    code.place("prlimit")  # with no new limits, which are behind a pointer, it only reads
    code.load(bpf.argument(2))
    code.equal(0, otherwise="new limits")
    code.load(bpf.argument(2) + bpf.HALF)
    code.equal(0, "fine")
    code.place("new limits")  # for oneself: a limit can kill, and outside there are others
    code.load(bpf.argument(0))
    code.equal(0, otherwise="refuse")
    code.load(bpf.argument(1))
    code.equal(TAG, "refuse", "fine")
    code.place("setrlimit")
    code.load(bpf.argument(0))
    code.equal(TAG, "refuse", "fine")
