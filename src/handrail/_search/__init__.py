"""Tool search: an index of definitions, and the words that find them."""
