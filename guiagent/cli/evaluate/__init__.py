"""Commands that measure policies and prove tasks."""
