"""What is known of values before a run, and the mistakes that follow from it: paths, comparisons, branches.

`judge` is the entry of the checks, `find_facts` that of the explanation. Both walk the steps (`walk`), know at each
place what the names there give (`place`, `context`), and read every expression with that (`reader`, `operators`,
`functions`); `judge` reports what cannot be meant (`rules`, `consents`, `branches`). Each kind says what its own output
looks like (`Step.output_shape`). May import `kinds`.

Traps: a shape is an upper bound, so that something is an error only if no value of the shape could do; null is never
excluded, as a step may be skipped; a part of an expression that is never reached is not judged.
"""

from holdfast.blueprint.shapes.facts import Facts, ReadValue, find_facts, find_value, list_references
from holdfast.blueprint.shapes.walk import NO_TOOLS, DecidingExpression, find_output_shape, judge

__all__ = [
    "NO_TOOLS",
    "Facts",
    "DecidingExpression",
    "ReadValue",
    "find_facts",
    "find_output_shape",
    "find_value",
    "judge",
    "list_references",
]
