"""Benchmarks of speed and cost, as ratios measured in one run; see README.md in this folder."""
