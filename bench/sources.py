"""`python bench/sources.py`: what rules about sources cost, in instructions, against the same calls without them.

Rows are for the size of what a run has read. A looked-up call names an address that no text has. One with a code of
digits, such as `x10005@evil.example`, costs more in long runs: a short code takes longer to search. A call without a destination is in
a run with or without a person's words: with them, its result is remembered. The memory is that of the texts in one
spelling, with all that is kept for a result, against the texts. Fails above the limits.
"""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path

from execution import counts_of
from handrail import Result
from handrail.sources import Heard

LIMITS = {0: 1.3, 10_000: 1.3, 100_000: 1.6, 1_000_000: 3.5}
"""The most a looked-up call may cost, by the characters read before, in times the other call."""
MAX_REMEMBERED, MAX_UNHEARD, MAX_MEMORY = 1.25, 1.03, 1.05
RESULT = 5_000


def measure_memory() -> float:
    """Return the memory for results and the searched texts, in times the texts."""
    texts = [f"{part} " + "word and more " * (RESULT // 14) for part in range(200)]
    results = [Result(f"r{part}", text) for part, text in enumerate(texts)]
    tracemalloc.start()
    heard = Heard()
    for result in results:
        heard.add("read", "{}", result)
    sizes = sum(len(one.text) for one in heard.reads)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return used / sizes


def main() -> int:
    """Print one line for each figure, and return whether one is above its limit."""
    counts = counts_of([sys.executable, str(Path(__file__).with_name("counted_sources.py"))])
    rows = [
        (what, name, kind, size, most if limit is None else limit)
        for what, name, kind, limit in (
            ("looked up", "sources", "sends", None),
            ("looked up, with a code", "sources", "codes", None),
            ("no destination, with words", "sources", "looks", MAX_REMEMBERED),
            ("no destination, without words", "unheard", "looks", MAX_UNHEARD),
        )
        for size, most in LIMITS.items()
    ]
    wrong = 0
    for what, name, kind, size, limit in rows:
        ours, plain = counts[f"{name} {kind} {size}"], counts[f"plain {kind} {size}"]
        wrong += round(ours / plain, 2) > limit
        times = f"{ours:5.0f} and {plain:5.0f} kIr, {ours / plain:.2f} times"
        print(f"{what:29} {size:>9,} characters read: {times}, at most {limit}")
    memory = measure_memory()
    wrong += memory > MAX_MEMORY
    print(f"memory: {memory:.2f} times the texts, at most {MAX_MEMORY}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
