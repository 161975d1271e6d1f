"""Find the commands in the text of a shell command."""
