"""The tools that a search can find, what it answers, and the tools that a model meets for it."""
