"""The engine that queues segments and runs them again after a crash, behind its port."""
