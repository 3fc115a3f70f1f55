"""Random drills: runs of every kind go on while worker, server and `serve` are killed, ended and frozen.

`python -m drills` (`make drills`) prints what was disturbed and what came of it, and its seed. Its exit code is 1 if a
run failed by it, an answer was lost, an effect was made twice without a person's word, or a history does not replay.
`work.py` says what runs, `people.py` who answers, `disturbances.py` what happens to the processes, by `network.py`,
`clock.py` and `disk.py`; `__main__.py` what must hold at the end.
"""
