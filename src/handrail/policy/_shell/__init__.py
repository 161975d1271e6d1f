"""Find commands in a shell command's text."""
