"""Guardrails: an operator's rules on what agents do, checked on every verb before it reaches a device."""
