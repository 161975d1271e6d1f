"""A workspace's tools, models and trust."""
