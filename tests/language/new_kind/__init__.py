"""A step kind that `test_new_kind.py` adds to a copy of the source: its class, an example, and what uses them."""
