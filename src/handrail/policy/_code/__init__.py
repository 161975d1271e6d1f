"""Find the workspace files run by a shell line."""
