"""`python -m handrail_cli`: the same as `handrail`."""

from handrail_cli import main

main()
