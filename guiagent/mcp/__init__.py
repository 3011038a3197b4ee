"""The farm as a server of the Model Context Protocol: its devices as tools of any client that speaks it."""
