"""The tools a search can find, its answers, and the tools a model gets for it."""
