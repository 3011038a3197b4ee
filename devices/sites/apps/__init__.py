"""Definitions of sites, a file an application."""
