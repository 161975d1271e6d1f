"""The commands, by group. No module here imports another.

A new command needs a line in ``cli/_tree.py``, a JSON Schema in ``docs/cli/schemas``, a line in
``LINES`` of ``tests/cli/test_json.py``, and ``python tests/cli/reference.py`` for the reference.
"""
