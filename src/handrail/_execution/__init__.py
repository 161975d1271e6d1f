"""From a call to its result: one module for each stage, and what takes calls through them."""
