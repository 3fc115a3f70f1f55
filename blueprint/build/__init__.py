"""The same document from typed Python: agents with names, and pipelines.

Entry points: `Pipeline`, `agent`, `step`, `ask`, the blocks (`loop`, `each`, `parallel`, `choose`, `states`), `add` for
any other kind; `context`, `output` and `previous`. The files, from the bottom: `references` (expressions), `schemas`,
`places`; `agents`; `pipeline` (the document); `steps` and `blocks`.
It imports the rest of the language. Authors import it as `holdfast.build`.
Traps: an author's workflow module is executed again for each run, so that what is built there must be the same each
time; after each step the whole document is parsed again, as only the loader knows what is wrong; problems have the
place in the author's code, which `places` finds by the frames; a name of a kind is written, and never asked for.
"""
