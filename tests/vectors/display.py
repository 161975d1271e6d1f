"""Hostile texts on the screen where a person is asked: each is written out, counted or refused."""

from approvals.display_vectors import control_caught, holds

__all__ = ["control_caught", "holds"]
