"""What is known of values before a run, and the mistakes that follow from it: paths, comparisons, branches.

`judge` is the entry: it walks the steps (`walk`), knows at each place what the names there give (`place`, `context`),
reads every expression with that (`reader`, `operators`, `calls`), and reports what cannot be meant (`rules`,
`consents`, `branches`). Each kind says what its own output looks like (`Step.output_shape`). May import `kinds`.

Traps: a shape is an upper bound, so that something is an error only if no value of the shape could do; null is never
excluded, as a step may be skipped; a part of an expression that is never reached is not judged.
"""

from holdfast.blueprint.shapes.walk import find_output_shape, judge

__all__ = ["find_output_shape", "judge"]
