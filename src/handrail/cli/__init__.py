"""The command line: one module per command, and the tree of commands."""
