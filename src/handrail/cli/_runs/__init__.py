"""Runs: starting, saving, showing and resuming them."""
