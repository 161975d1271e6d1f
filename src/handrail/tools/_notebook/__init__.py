"""Jupyter notebooks: their cells as text, and a cell's source in the JSON of the file."""
