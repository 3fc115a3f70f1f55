"""Speed and cost, as ratios measured in one run. See README.md in this folder."""
