"""Review: a second model that may allow a call, and otherwise leaves it to a person."""
