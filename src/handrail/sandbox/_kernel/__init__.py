"""Kernel interfaces: Landlock and system call filters."""
