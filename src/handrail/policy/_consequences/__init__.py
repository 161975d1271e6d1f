"""Find shell command effects a sandbox cannot contain."""
