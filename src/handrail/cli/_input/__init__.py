"""A chat's input: a few rows at the bottom of the terminal, for the user to type in."""
