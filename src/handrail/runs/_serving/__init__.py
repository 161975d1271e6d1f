"""Durable workers, answer claims, and records to read."""
