"""Locates edits in files, and explains why an edit does not match."""
