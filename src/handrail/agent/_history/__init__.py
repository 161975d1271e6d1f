"""The history of a run: its state, how it is saved, and what of it is sent."""
