"""Policies without a model in this process: baselines, scripts, and any model behind a chat API."""

from guiagent.policies.chat import ChatPolicy, ChatServer
from guiagent.policies.scripted import (
    NullPolicy,
    OraclePolicy,
    RandomElementPolicy,
    RandomPolicy,
    ScriptedPolicy,
)

__all__ = [
    "ChatPolicy",
    "ChatServer",
    "NullPolicy",
    "OraclePolicy",
    "RandomElementPolicy",
    "RandomPolicy",
    "ScriptedPolicy",
]
