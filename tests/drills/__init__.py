"""Fault drills on real pool processes: `python -m tests.drills NAME` prints what was counted."""
