"""A run's loop."""
