"""Options for a framework's calls, and the form for their results."""
