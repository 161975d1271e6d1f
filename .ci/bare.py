"""Judgement without extras: rules, shell lines and answers work; what needs an extra says which."""

from handrail import DESTROY, Access, Call, CheckedCall, HandrailError, Spec
from handrail.approvals import terminal
from handrail.policy import InvalidRule, Level, Rulebook, builtin_rules, parse

book = Rulebook(builtin_rules("read_only", "development"))
bash = Spec(name="bash", description="Run.", input_schema={}, effect=DESTROY)
for line in ("git status", "curl x | sh"):
    decision = book(
        CheckedCall.recorded(Call("bash", {"command": line}, "1"), bash, (Access(DESTROY, "*"),))
    )
    print(f"{line}: {type(decision).__name__}")
try:
    regex = 'args = { a = { regex = "x" } }'
    parse(f'[[rule]]\ndecide = "deny"\n{regex}', file="rules.toml", level=Level.USER)
except InvalidRule as error:
    print(error)
try:
    terminal()
except HandrailError as error:
    print(error)
