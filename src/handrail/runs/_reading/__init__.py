"""Rows that the writer of a journal keeps beside its entries, for pages and searches."""
