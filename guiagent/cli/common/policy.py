"""Open a policy by the name that a user gives: a baseline, a model server or a checkpoint."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

import xxhash

from guiagent.actions import Done
from guiagent.cli.common.provenance import commit, versions
from guiagent.dialects import find_dialect
from guiagent.policies import (
    CentrePolicy,
    ChatPolicy,
    ChatServer,
    NullPolicy,
    ObedientPolicy,
    OraclePolicy,
    RandomElementPolicy,
    RandomPolicy,
    ScriptedPolicy,
    ZoomPolicy,
)
from guiagent.protocols import Policy
from training.config import HistoryConfig, TrainConfig, checkpoint_folder
from training.experience.library import Experienced, Experiences, read

BASELINES: dict[str, Callable[[], Policy]] = {
    "null": NullPolicy,
    "random": RandomPolicy,
    "random-element": RandomElementPolicy,
    "oracle": OraclePolicy,
}
SCRIPTED: dict[str, Callable[[], Policy]] = {  # all policies without a model
    **BASELINES,
    "centre": CentrePolicy,
    "done": lambda: ScriptedPolicy([]),
    "fail": lambda: ScriptedPolicy([Done(status="infeasible")]),
    "obedient": ObedientPolicy,
}
PROBING = frozenset({"random-element", "oracle", "obedient"})  # they read what a task's probes name
_FULL_HISTORY = HistoryConfig()


@dataclass(frozen=True, kw_only=True)
class PolicySettings:
    """The settings of a model's prompts and of its sampling."""

    temperature: float
    top_p: float = 1.0
    frequency_penalty: float = 0.0
    dialect: str = "ui-tars"
    history: HistoryConfig = _FULL_HISTORY
    max_new_tokens: int = 512  # room for a large model's thoughts; a small one ends its replies earlier
    max_pixels: int | None = None
    seed: int = 0  # of sampling; a model server has its own
    experiences: Experiences | None = None  # of earlier attempts, for its prompts
    zoom: float | None = None  # share of each side of a window round its first point, to point again in

    @classmethod
    def of_training(cls, config: TrainConfig) -> Self:
        """Return the settings that a run's rollouts are sampled with."""
        rollout = config.rollout
        return cls(
            temperature=rollout.temperature,
            top_p=rollout.top_p,
            frequency_penalty=rollout.frequency_penalty,
            dialect=config.dialect,
            history=rollout.history,
            max_new_tokens=rollout.max_new_tokens,
            max_pixels=config.max_pixels,
        )


def history_of(images: int | None) -> HistoryConfig:
    """Return the history that shows the last `images` screenshots; None: all of them."""
    return _FULL_HISTORY if images is None else HistoryConfig(kind="sliding", images=images)


def load_experiences(library: Path | None) -> Experiences | None:
    """Load the experiences in a library's file. Raises what `training.experience.library.read` raises."""
    return None if library is None else read(library)


def facts_of(name: str, settings: PolicySettings) -> dict[str, Any]:
    """What a result says of its policy: engine, dialect, prompt, sampling, and the code that drove it."""
    code = {"code": {"commit": commit(), **versions()}}
    if name in SCRIPTED:
        return {"policy": name, "engine": "scripted", "zoom": settings.zoom, **code}
    dialect = find_dialect(settings.dialect)
    words = f"{dialect.system}\0{dialect.prompt('')}".encode()
    return {
        "policy": _without_password(name),
        "engine": "model server" if "://" in name else "this process",
        "dialect": settings.dialect,
        "prompt": xxhash.xxh3_64_hexdigest(words),
        "history": settings.history.model_dump(),
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "frequency_penalty": settings.frequency_penalty,
        "max_new_tokens": settings.max_new_tokens,
        "max_pixels": settings.max_pixels,
        "sampling_seed": settings.seed,
        "experiences": settings.experiences.digest if settings.experiences else None,
        "zoom": settings.zoom,
        **code,
    }


def _without_password(name: str) -> str:
    """A policy's name as it may be published: an address without the user and password in it."""
    if "://" not in name:
        return name
    parts = urlsplit(name)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))


@asynccontextmanager
async def open_policy(name: str, settings: PolicySettings) -> AsyncIterator[Policy]:
    """Open a baseline, a server's http(s)://HOST/v1#MODEL, or a checkpoint that `checkpoint_folder` finds.

    The policy is closed at the end of the context: a server's connections, or a model's thread.
    """
    async with AsyncExitStack() as held:
        policy: Policy
        if name in SCRIPTED:
            policy = SCRIPTED[name]()
        elif name.startswith(("http://", "https://")):
            policy = chat = _chat_policy(name, settings)
            held.push_async_callback(chat.close)
        else:
            policy = _local_policy(name, settings, held)
        if settings.experiences is not None and name not in SCRIPTED:
            policy = Experienced(policy, settings.experiences)
        yield policy if settings.zoom is None else ZoomPolicy(policy, settings.zoom)


def _chat_policy(name: str, settings: PolicySettings) -> ChatPolicy:
    url, _, model = name.partition("#")
    history = settings.history
    fields = {"temperature": settings.temperature, "max_tokens": settings.max_new_tokens}
    if settings.top_p != 1.0:  # what narrows nothing is left out: not every server knows it
        fields["top_p"] = settings.top_p
    if settings.frequency_penalty:
        fields["frequency_penalty"] = settings.frequency_penalty
    return ChatPolicy(
        ChatServer(url, model),
        find_dialect(settings.dialect),
        max_images=None if history.kind == "full" else history.images,
        sampling=fields,
    )


def _local_policy(name: str, settings: PolicySettings, held: AsyncExitStack) -> Policy:
    import torch

    from training.engine.policy import LocalPolicy
    from training.engine.sampling import Sampling
    from training.inputs.encoder import Encoder

    torch.set_num_threads(1)
    policy = LocalPolicy(
        Encoder(checkpoint_folder(name), settings.dialect, settings.max_pixels),
        Sampling(settings.temperature, settings.top_p, settings.frequency_penalty, settings.max_new_tokens),
        history=settings.history,
        seed=settings.seed,
    )
    held.callback(policy.close)
    return policy
