"""Validators from Python types and JSON Schemas, and the schemas a model receives."""
