"""The input of a chat: a few rows at the bottom of the terminal, which the person types in."""
