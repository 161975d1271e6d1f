"""`--max-cost-per-day` and `--max-cost-per-month`: what all runs of a user may cost together."""

from __future__ import annotations

import re

from cli_harness import Handrail, Ran
from cli_runs import standing_of
from cli_scripts import programmed

PAID = """
async def model(request):
    return Reply((Text("Done."),), usage=Usage(input_tokens=1_000_000), model="gpt-5")

model.names = ("gpt-5",)  # 1.25 dollars for a million tokens
"""
UNPRICED = PAID.replace("gpt-5", "mine-1")


def run(handrail: Handrail, *options: str) -> Ran:
    return handrail("run", *programmed(handrail, PAID), "Go", *options, "--json")


def why(ran: Ran) -> str:
    return re.sub(r"\d{4}-\d{2}-\d{2}", "DATE", ran.json["why"])


def test_runs_together_end_at_the_limit_of_a_day_and_of_a_month(handrail: Handrail) -> None:
    both = ("--max-cost-per-day", "2", "--max-cost-per-month", "3")
    first = [run(handrail, *both).exit for _ in range(2)]
    day, month = run(handrail, *both), run(handrail, *both[2:])
    after = run(handrail, *both[2:])
    without = run(handrail)

    said = "The budget of ${} per user and {} is used up until DATE 00:00 UTC"
    assert (first, month.exit, without.exit) == ([0, 0], 0, 0)
    assert [(one.exit, *standing_of(one.json), why(one)) for one in (day, after)] == [
        (5, "done", "limit", said.format(2, "day")),
        (5, "done", "limit", said.format(3, "month")),
    ]
    hint = f"`handrail runs resume {day.json['id']} --max-cost-per-day or --max-cost-per-month N`"
    assert day.err.splitlines()[-1] == f"to continue, raise it: {hint}"


def test_a_run_can_be_resumed_with_a_higher_limit(handrail: Handrail) -> None:
    run(handrail, "--max-cost-per-day", "1")
    ended = run(handrail, "--max-cost-per-day", "1")

    model = programmed(handrail, PAID)
    resumed = handrail(
        "runs", "resume", ended.json["id"], *model, "--max-cost-per-day", "9", "--json"
    )

    assert (ended.exit, resumed.exit) == (5, 0)


def test_settings_lower_an_option_and_never_raise_it(handrail: Handrail) -> None:
    handrail.config.mkdir(mode=0o700, parents=True)
    (handrail.config / "config.toml").write_text("max_cost_per_day = 1.0\n", encoding="utf-8")
    exits = [run(handrail, "--max-cost-per-day", most).exit for most in ("9", "9", "0.5")]

    assert exits == [0, 5, 5]


def test_a_model_without_a_known_price_is_refused(handrail: Handrail) -> None:
    ran = handrail("run", *programmed(handrail, UNPRICED), "Go", "--max-cost-per-day", "1")

    assert ran.exit == 2
    assert ran.err.partition("\n")[2] == (
        "handrail: Budget 'command_line_day': the price of model 'mine-1' is not known\n"
        "  limit tokens instead, with --max-total-tokens\n"
    )
