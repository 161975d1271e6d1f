"""The command line: one module for each command; `handrail_cli` has the tree of them."""
