"""One call on its way to a server, and its answer: a result, or work that takes longer."""
