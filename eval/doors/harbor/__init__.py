"""Suites as Harbor's task folders (0.26), whose agents act on leased devices and are scored on our side."""
