"""Permissions of checked calls: policies, previews, explanations."""
