"""The calls of one reply, and the events about them."""
