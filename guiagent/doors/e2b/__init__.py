"""The farm as E2B's sandboxes: its API, and the daemon that E2B's clients find inside a sandbox."""
