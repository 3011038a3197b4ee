"""The virtual phone: not Android, but driven by Android's tools, with apps of its own on one small screen."""
