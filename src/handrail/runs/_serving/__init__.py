"""Workers of durable runs, the claim of answers, and records to read."""
