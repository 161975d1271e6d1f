"""The parts behind durable runs: an engine behind a narrow port, our rows, run segments."""
