"""A run's history: its state, how it is saved, and which parts are sent."""
