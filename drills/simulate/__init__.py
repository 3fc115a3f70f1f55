"""Runs under a simulated server: every order in which the world may come to a run, by seed, in one process.

`python -m drills.simulate` runs our workflow classes by hand-made activations, through our runner as a worker does. A
seed makes a blueprint and a schedule: which task, answer, result, signal, timer, query, eviction, loss or cancel comes
next. After each step and at the end the promises of `docs/reliability.md` are checked; a seed that breaks one is
replayed exactly by `--seed N`, and shrunk.

- `sdk.py`: everything of the SDK that is private, and of one version.
- `core.py`: what the SDK's core does between a history and a workflow: grouping, cancelled commands, replay, the match.
- `server.py`: the histories of a server, its tasks, timers, children and signals. It knows nothing of blueprints.
- `world.py`: activities, people and other systems: what they do depends on what they are asked, never on when.
- `blueprints.py`: the generator of the language, a table with a line for each kind of step.
- `simulation.py`: one seed: the steps that may come next, and the promises. `choices.py`: what was chosen, to shrink.
- `going_back.py`: forks of complete runs, by the reader of the client; `recording.py`: the histories that it reads.
- `real.py`: the undisturbed run of a seed on a real server, to compare.
- `breaks.py`: mistakes of the product, planted on purpose, each of which must be found.
- `search.py`: many seeds.

Imports workflows, protocol and blueprint, and of the client what reads a run to go on from; nothing of it runs outside
of tests and drills.
"""
