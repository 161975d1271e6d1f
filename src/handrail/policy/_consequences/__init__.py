"""Find what a shell command does that a sandbox cannot contain."""
