"""Small modules that any package may use. They import nothing else of handrail."""
