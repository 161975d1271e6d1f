"""Validators from Python types and JSON Schemas, and the schemas that a model receives."""
