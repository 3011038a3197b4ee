"""`guiagent tasks check`: task files of others, a module per format."""
