"""Conditions and {{ templates }}: pure functions of names to values, bounded in time and size.

jinja2 parses (`parse`), a walker over its nodes evaluates (`walk`); `evaluation` is what the rest of the code calls.
Filters, tests, functions and methods are the tables FILTERS, TESTS, FUNCTIONS and METHODS. What shows values and tells
of errors (`values`, `error`, `texts`) loads no jinja2: commands that read runs need no more.
"""
