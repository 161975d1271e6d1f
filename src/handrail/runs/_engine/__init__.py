"""The engine queueing segments and running them again after a crash, behind its port."""
