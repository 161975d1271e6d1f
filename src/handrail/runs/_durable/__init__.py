"""The parts of durable runs: an engine behind a narrow port, our rows, the segments of a run."""
