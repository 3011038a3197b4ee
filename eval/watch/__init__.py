"""The live page of a training run: follows the run's files, and serves one page with all that they say."""
