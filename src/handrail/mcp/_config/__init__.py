"""Configuration of servers, as people have it for other programs."""
