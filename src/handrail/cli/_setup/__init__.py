"""Parts for `handrail init` and `handrail models`: local servers, questions, file and trial."""
