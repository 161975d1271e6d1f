"""One reply's calls, and the events about them."""
