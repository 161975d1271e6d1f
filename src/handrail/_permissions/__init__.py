"""Permissions for checked calls: policies, previews, explanations."""
