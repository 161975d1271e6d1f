"""Find the workspace files that a shell line runs."""
