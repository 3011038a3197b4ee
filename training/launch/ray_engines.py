"""The engines of a run on a Ray cluster: one per host, and all of them as one `Engine`.

A host has no state that cannot be replaced. A lost one is started elsewhere and samples only once it has
weights again; meanwhile another engine continues its conversations. Faults are returned, not raised.
"""

import asyncio
import tempfile
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import ray
import torch
import xxhash
from ray.actor import ActorHandle
from ray.exceptions import RayError, RayTaskError

from guiagent.errors import Fault, FaultError, GuiAgentError, InfrastructureError
from training.config import TrainConfig, checkpoint_folder
from training.engine.engine import Completion, EngineStats, Request
from training.engine.factory import open_engine
from training.engine.frames import FrameCache, Missing, ask_with_frames, name_of
from training.engine.transfer import Arriving, Bytes, Plan, Version, packed, prepared
from training.engine.weights import DTYPES, checkpoint_tensors
from training.inputs.encoder import Encoder

PAUSE_S = 1.0
_AWAY_S = 300.0  # time until an episode is given up: a node was lost and not replaced
_LOADING_S = 300.0  # time for all engines to load new weights
_ANSWER_S = 10.0
_NO_WEIGHTS = -1
BUCKET_BYTES = 32 * 2**20  # two are in the object store at once, which may be small
_AHEAD = 2


class Asked(NamedTuple):
    """A `Request` as sent to a host, with those of its frames that the host may not have."""

    conversation: str
    ids: list[int]
    names: list[str]  # names of the frames, in order
    sent: dict[str, bytes]


class EngineHost:
    """An engine in this actor, or vLLM servers behind it. `generate` returns None before it has weights."""

    def __init__(self, config: TrainConfig, seed: int) -> None:
        torch.set_num_threads(1)
        self._folder = tempfile.TemporaryDirectory(prefix="guiagent-engine-")
        encoder = Encoder(checkpoint_folder(config.policy), config.dialect, config.max_pixels)
        self._engine = open_engine(config, encoder, Path(self._folder.name), seed=seed)
        self._checkpoint = encoder.checkpoint
        self._version = _NO_WEIGHTS
        self._arriving: Arriving | None = None
        self._frames = FrameCache()

    async def generate(self, asked: Asked) -> Completion | Missing | Fault | None:
        if self._version == _NO_WEIGHTS:
            return None
        found = self._frames.take(asked.names, asked.sent)
        if isinstance(found, Missing):
            return found
        request = Request(asked.conversation, asked.ids, [found[name] for name in asked.names])
        try:
            return await self._engine.generate(request)
        except FaultError as error:
            return error.fault

    async def forget(self, conversation: str) -> None:
        self._engine.forget(conversation)

    async def version(self) -> int:
        return self._version

    async def stats(self) -> EngineStats:
        return self._engine.stats

    async def dtypes(self) -> dict[str, str]:
        """The precision (safetensors' name) of each of the engine's tensors, by the checkpoint's names."""
        tensors = await asyncio.to_thread(checkpoint_tensors, self._checkpoint)
        return {name: dtype for name, (dtype, _) in tensors.items()}

    async def begin_weights(self, version: int, plan: Plan) -> bool:
        """Make room for a version; one that was arriving is dropped."""
        self._arriving = await asyncio.to_thread(Arriving, version, plan)
        return True

    async def take_bucket(self, version: int, number: int, data: Bytes, digest: str) -> bool | None:
        """Take a bucket; return False if it is damaged, None if this host began anew meanwhile."""
        arriving = self._arriving
        if arriving is None or arriving.version != version:
            return None
        return await asyncio.to_thread(arriving.put, number, data, digest)

    async def load_weights(self, version: int) -> bool | None:
        """Load a version that has arrived; return False, with the old weights, if it is not whole."""
        arriving, self._arriving = self._arriving, None
        if arriving is None or arriving.version != version:
            return None
        if not arriving.whole:
            return False
        await asyncio.to_thread(self._engine.load_weights, arriving.tensors, version)
        self._version = version
        return True

    async def close(self) -> None:
        """Close the engine and remove its files, which a killed actor would leave behind."""
        await asyncio.to_thread(self._engine.close)
        self._folder.cleanup()


class RayEngine:
    """The engines of all hosts as one `Engine`. A conversation stays with one host as long as that lives."""

    def __init__(self, *names: str) -> None:
        self._hosts: list[ActorHandle[Any]] = [ray.get_actor(name) for name in names]
        self.sent_bytes = 0  # of weights, to all hosts together
        self._newest: Version | None = None
        self._dtypes: dict[str, torch.dtype] = {}  # of the engines' tensors; {} before a host has said
        self._sending = threading.Lock()
        self._closed = threading.Event()
        self._watcher: threading.Thread | None = None
        self._broken: Exception | None = None  # what ended the watcher
        self._totals = [_Total() for _ in self._hosts]

    @property
    def version(self) -> int:
        return self._newest.number if self._newest else 0

    @property
    def stats(self) -> EngineStats:
        """Statistics of all sampling on the hosts, by any client; one or two seconds old."""
        busy_s, prompt, cached, sampled, cpu_s = (
            sum(column) for column in zip(*(total.stats for total in self._totals), strict=True)
        )
        share = busy_s / len(self._totals)
        return EngineStats(share, int(prompt), int(cached), int(sampled), cpu_s)

    async def generate(self, request: Request) -> Completion:
        home = xxhash.xxh3_64_intdigest(request.conversation.encode())
        names = [name_of(frame) for frame in request.frames]
        for attempt in range(int(_AWAY_S / PAUSE_S) * len(self._hosts)):
            host = self._hosts[(home + attempt) % len(self._hosts)]
            answer = await ask_with_frames(names, partial(self._ask, host, request, names))
            if isinstance(answer, Completion):
                return answer
            if isinstance(answer, Fault):
                raise FaultError(answer)
            if (attempt + 1) % len(self._hosts) == 0:
                await asyncio.sleep(PAUSE_S)
        message = f"no engine answered for {_AWAY_S:.0f} seconds"
        raise FaultError(Fault("policy", "unreachable", message, retryable=True))

    async def _ask(
        self, host: ActorHandle[Any], request: Request, names: list[str], sending: set[str]
    ) -> Completion | Missing | Fault | None:
        """Ask one host for a completion; None if it is away or has no weights."""
        sent = {name: frame for name, frame in zip(names, request.frames, strict=True) if name in sending}
        asked = Asked(request.conversation, request.ids, names, sent)
        reference: ray.ObjectRef[Any] = host.generate.remote(asked)
        try:
            answer: Completion | Missing | Fault | None = await reference
        except asyncio.CancelledError:
            ray.cancel(reference)  # otherwise the host would go on sampling
            raise
        except RayError as error:
            raise_bugs(error)
            return None
        return answer

    def forget(self, conversation: str) -> None:
        home = xxhash.xxh3_64_intdigest(conversation.encode())
        self._hosts[home % len(self._hosts)].forget.remote(conversation)

    def load_weights(self, state: Mapping[str, torch.Tensor], version: int) -> None:
        """Load weights into every engine; one that is away gets them before it samples again.

        Raises InfrastructureError if an engine refuses them, now or when it last came back.
        """
        if self._broken is not None:
            raise self._broken
        with self._sending:
            self._newest = prepared(version, state, self._known_dtypes(), BUCKET_BYTES)
            self._send(self._hosts)
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._watch, name="weights", daemon=True)
            self._watcher.start()

    def close(self) -> None:
        self._closed.set()
        if self._watcher is not None:
            self._watcher.join()

    def _known_dtypes(self) -> dict[str, torch.dtype]:
        """The precision of the engines' tensors: weights are converted before they are sent, not after."""
        if not self._dtypes:
            said = _in_time([host.dtypes.remote() for host in self._hosts], _ANSWER_S)
            names: dict[str, str] = next((one for one in said if one is not None), {})
            self._dtypes = {name: DTYPES[dtype] for name, dtype in names.items() if dtype in DTYPES}
        return self._dtypes

    def _send(self, hosts: Sequence[ActorHandle[Any]]) -> None:
        """Send the newest weights, each bucket once, to hosts that are there; the others are sent them later.

        Raises InfrastructureError if a bucket came to a host damaged.
        """
        assert self._newest is not None
        version, plan = self._newest.number, self._newest.plan
        there = _answering(hosts, [host.begin_weights.remote(version, plan) for host in hosts])
        sent: deque[list[Any]] = deque()
        for number in range(len(plan.buckets)):
            data, digest = packed(self._newest, number)
            bucket = ray.put(data)
            sent.append([host.take_bucket.remote(version, number, bucket, digest) for host in there])
            self.sent_bytes += data.nbytes * len(there)
            if len(sent) == _AHEAD:
                _in_time(sent.popleft(), _LOADING_S)
        for answers in sent:
            _in_time(answers, _LOADING_S)
        if False in _in_time([host.load_weights.remote(version) for host in there], _LOADING_S):
            raise InfrastructureError(
                f"weights of version {version} came to an engine damaged, and it keeps the old ones: "
                "look at that node's memory and network, then start the run again"
            )

    def _watch(self) -> None:
        """Send the newest weights to every engine that came back without them, and read all statistics."""
        try:
            while not self._closed.wait(PAUSE_S):
                self._check_hosts()
        except Exception as error:  # raised by the next call of `load_weights`
            self._broken = error

    def _check_hosts(self) -> None:
        newest = self._newest
        versions = _in_time([host.version.remote() for host in self._hosts], _ANSWER_S)
        with self._sending:
            behind = [
                host
                for host, version in zip(self._hosts, versions, strict=True)
                if version not in (None, self.version)
            ]
            if behind and self._newest is newest:  # else they were asked before a version that they have now
                self._send(behind)
        all_stats = _in_time([host.stats.remote() for host in self._hosts], _ANSWER_S)
        for total, stats in zip(self._totals, all_stats, strict=True):
            if stats is not None:
                total.add(stats)


class _Total:
    """The total statistics of a host, over all its restarts."""

    def __init__(self) -> None:
        self.stats, self._life = EngineStats(), EngineStats()

    def add(self, life: EngineStats) -> None:
        """Add the host's present statistics; smaller ones than before mean that it was restarted."""
        anew = life.prompt_tokens < self._life.prompt_tokens or life.busy_s < self._life.busy_s
        before = EngineStats() if anew else self._life
        grown = (total + now - then for total, now, then in zip(self.stats, life, before, strict=True))
        self.stats, self._life = EngineStats(*grown), life  # type: ignore[arg-type]


def _in_time(answers: Sequence[Any], seconds: float) -> list[Any]:
    """Return the actors' answers after at most `seconds`; None for those that are away."""
    done, _ = ray.wait(list(answers), num_returns=len(answers), timeout=seconds) if answers else ([], [])
    found = []
    for answer in answers:
        try:
            found.append(ray.get(answer) if answer in done else None)
        except RayError as error:
            raise_bugs(error)
            found.append(None)
    return found


def _answering(hosts: Sequence[ActorHandle[Any]], answers: Sequence[Any]) -> list[ActorHandle[Any]]:
    """The hosts that answered in time."""
    found = _in_time(answers, _ANSWER_S)
    return [host for host, answer in zip(hosts, found, strict=True) if answer is not None]


def raise_bugs(error: RayError) -> None:
    """Raise an error that the actor's own code raised; ignore a lost actor, node or answer."""
    if isinstance(error, RayTaskError):
        if isinstance(error.cause, GuiAgentError):
            raise error.cause from error
        raise error
