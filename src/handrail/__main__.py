"""`python -m handrail`: the same as `handrail`."""

from handrail.cli._main import main

main()
