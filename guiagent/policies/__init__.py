"""Policies without a model in this process: baselines, scripts, and any model behind a chat API."""

from guiagent.policies.chat import ChatPolicy, ChatServer
from guiagent.policies.scripted import (
    CentrePolicy,
    NullPolicy,
    ObedientPolicy,
    OraclePolicy,
    RandomElementPolicy,
    RandomPolicy,
    ScriptedPolicy,
)
from guiagent.policies.zooming import ZoomPolicy

__all__ = [
    "CentrePolicy",
    "ChatPolicy",
    "ChatServer",
    "NullPolicy",
    "ObedientPolicy",
    "OraclePolicy",
    "RandomElementPolicy",
    "RandomPolicy",
    "ScriptedPolicy",
    "ZoomPolicy",
]
