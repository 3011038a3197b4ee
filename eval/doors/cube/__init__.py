"""Suites in the words of the CUBE standard (0.1.0rc10), and leased browsers for its own cubes of the web."""

MISSING = "cube-standard is not installed: pip install 'cube-standard>=0.1.0rc8'"
