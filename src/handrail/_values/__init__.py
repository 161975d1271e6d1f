"""Frozen values that all other packages use: calls, accesses, decisions, results."""
