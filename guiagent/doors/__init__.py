"""Servers that speak the wires of others, on devices leased from a farm."""
