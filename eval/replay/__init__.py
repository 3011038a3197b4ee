"""Replay: stored episodes as one page that opens from the disk, with its pictures in a folder beside it."""
