"""handrail inside other frameworks: one module for each, named after the framework's package.

Every function takes an executor. Importing this package imports no framework; each module imports
its own. ``handrail[pydantic-ai]`` and the other extras install working versions.
"""
