"""The options of a framework's calls, and the form of their results."""
