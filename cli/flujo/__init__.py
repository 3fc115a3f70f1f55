"""Turn a blueprint that was written for Flujo into one of ours. Entry point: `convert.convert`.

It works on the document as it was read, before anything is checked, so that each note has the line of what it is about.
What the loader reads as it stands (`kinds.flujo`) is left as it is.
"""
