"""Protocols of chats: what a client asks for, and how events are written."""
