"""Shared parts of the four API formats: streams, histories, ids."""
