"""Suites for the loops, runners and trainers of others, a file for each."""
