"""Sandboxes for hostile programs on this host: no network, no capabilities, few system calls, limits."""

from guiagent.sandbox.bubblewrap import SYSTEM_LINKS, bubblewrap, command, why_not_isolated
from guiagent.sandbox.launch import DISK, ROOT, UPPER, Plan

__all__ = ["DISK", "ROOT", "SYSTEM_LINKS", "UPPER", "Plan", "bubblewrap", "command", "why_not_isolated"]
