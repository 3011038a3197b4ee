"""Checks on a device's state: getters bring a part of it to the host, metrics compare it there."""
