"""Rows kept by a journal's writer beside its entries, for pages and searches."""
