"""Plans that fail and are made again by a planner that repeats everything: no effect may happen twice.

`python -m drills.replan`: 20 runs whose worker is killed again and again, and 180 simulated ones under random
schedules. A person judges each lost call, sometimes wrongly cautious, and each call that an earlier plan made.
"""
