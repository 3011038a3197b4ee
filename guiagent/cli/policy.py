"""Policies by the name a user gives them."""

from collections.abc import Iterator
from contextlib import contextmanager

from guiagent.dialects import find_dialect
from guiagent.policies import ChatPolicy, NullPolicy, OraclePolicy, RandomPolicy
from guiagent.protocols import Policy
from training.config import checkpoint_folder

BASELINES = {"null": NullPolicy, "random": RandomPolicy, "oracle": OraclePolicy}


@contextmanager
def open_policy(name: str, temperature: float, max_new_tokens: int) -> Iterator[Policy]:
    """A baseline, `tiny` (the shipped small policy), http(s)://HOST/v1#MODEL for a server, or a folder."""
    if name in BASELINES:
        yield BASELINES[name]()
        return
    if name.startswith(("http://", "https://")):
        url, _, model = name.partition("#")
        yield ChatPolicy(url, model, find_dialect("ui-tars"), temperature=temperature)
        return
    import torch

    from training.engine.local import LocalPolicy

    torch.set_num_threads(1)
    policy = LocalPolicy(checkpoint_folder(name), temperature=temperature, max_new_tokens=max_new_tokens)
    try:
        yield policy
    finally:
        policy.close()
