"""Jupyter notebooks: their cells as text, and a cell's source in the file's JSON."""
