"""An engine of vLLM servers: samples over HTTP, and rolls out new weights one server at a time.

A conversation stays with the server whose prefix cache has its earlier turns; new ones go to the least
loaded. While one server takes new weights the others go on (DART, arXiv 2509.23866). A server that died is
restarted with the newest weights that were accepted; its requests in progress become faults.
"""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from functools import partial

import httpx
import torch

from guiagent.errors import Fault, FaultError, InfrastructureError
from guiagent.patience import Patience
from training.engine.engine import Completion, EngineStats, Request
from training.engine.frames import Missing, ask_with_frames
from training.engine.sampling import Sampling
from training.engine.vllm import protocol as wire
from training.engine.vllm.checkpoint_view import vocabulary_size
from training.engine.vllm.frames import MISSING, PATH
from training.engine.vllm.replica import ADAPTER, Replica, Server, ServerLost, WeightsRefused
from training.engine.weights import WeightWriter, Written, remove
from training.inputs.encoder import Encoder

_MISCONFIGURED = {401, 403, 404}
_MOST_HOMES = 100_000
_SAMPLING = Sampling()
_PATIENCE = Patience(timeout_s=600.0)


class VllmEngine:
    """An `Engine` that samples from `servers`. It starts those that are ours, and ends them when closed.

    A server that refuses connections or answers 429 or 5xx, and yet lives, is tried again, as `patience`
    says. If `sampling` narrows what is drawn, no log-probability is reported: vLLM's are of the distribution
    it drew from (`training.engine.sampling` says what a learner needs).
    """

    def __init__(
        self,
        servers: Sequence[Server],
        encoder: Encoder,
        writer: WeightWriter,
        sampling: Sampling = _SAMPLING,
        *,
        max_context: int,
        patience: Patience = _PATIENCE,
    ) -> None:
        """Raises InfrastructureError if a server does not start."""
        self._replicas = [Replica(server) for server in servers]
        self._encoder = encoder
        self._writer = writer
        self._sampling, self._max_context, self._patience = sampling, max_context, patience
        self._params = wire.sampling_params(encoder, sampling)
        self._vocabulary = vocabulary_size(encoder.checkpoint)
        self._pictures = wire.Pictures(encoder)
        self._stats = EngineStats()
        self._client: httpx.AsyncClient | None = None
        self._homes: dict[str, Replica] = {}  # by conversation
        self._starting: dict[Replica, asyncio.Task[None]] = {}
        self._updating = threading.Lock()  # held while the weights of a server are changed
        self._newest: Written | None = None  # None: the weights that the servers start with
        self._version = 0
        self._closed = False
        try:
            for replica in self._replicas:
                replica.start(None, 0)
        except BaseException:
            self.close()
            raise

    @property
    def version(self) -> int:
        return self._version

    @property
    def stats(self) -> EngineStats:
        busy_s = sum(replica.busy_s for replica in self._replicas) / len(self._replicas)
        return self._stats._replace(busy_s=busy_s)

    async def generate(self, request: Request) -> Completion:
        limit = min(self._sampling.max_new_tokens, self._max_context - len(request.ids))
        if limit < 1:
            message = (
                f"{len(request.ids)} tokens, and the server takes {self._max_context}; show fewer screenshots"
            )
            raise _fault("context_too_long", message, retryable=False)
        for fallen in self._replicas:
            if fallen.down:
                self._start(fallen)
        replica = self._home(request.conversation)
        with replica.at_work():
            if replica.down:
                await asyncio.shield(self._start(replica))
            raw = await self._send(replica, request, limit)
        reply = wire.reply(raw)
        try:
            completion = wire.completion(
                reply, request, self._encoder, self._sampling, vocabulary=self._vocabulary, limit=limit
            )
        except FaultError as error:
            if error.fault.code == wire.UNVERSIONED:
                self._lose(replica)
            raise
        so_far = self._stats
        self._stats = EngineStats(
            prompt_tokens=so_far.prompt_tokens + len(request.ids),
            cached_tokens=so_far.cached_tokens + reply.cached_tokens,
            sampled_tokens=so_far.sampled_tokens + len(completion.ids),
        )
        return completion

    def forget(self, conversation: str) -> None:
        self._homes.pop(conversation, None)

    def load_weights(self, state: Mapping[str, torch.Tensor], version: int) -> None:
        """See `Engine`. An empty `state` only gives the current weights another version."""
        with self._updating:
            if not state:
                for replica in self._replicas:
                    self._label(replica, version)
                self._version = version
                return
            weights = self._writer.write(state, version)
            try:
                self._roll_out(weights)
            except BaseException:
                remove(weights.path)
                raise
            if self._newest is not None:
                remove(self._newest.path)
            self._newest, self._version = weights, version

    def close(self) -> None:
        self._closed = True
        for replica in self._replicas:
            replica.close()  # also a server that is starting: its start fails then
        with self._updating:
            for replica in self._replicas:
                replica.close()
            self._writer.close()

    # -- requests -------------------------------------------------------------------------------------------

    def _home(self, conversation: str) -> Replica:
        """The conversation's server, or the least loaded one; one that is down only if all are."""
        home = self._homes.pop(conversation, None)
        if home is None or home.down:
            home = min(self._replicas, key=lambda replica: (replica.down, replica.updating, replica.busy))
        self._homes[conversation] = home  # latest use last
        if len(self._homes) > _MOST_HOMES:  # conversations that were never forgotten
            del self._homes[next(iter(self._homes))]
        return home

    async def _send(self, replica: Replica, request: Request, limit: int) -> bytes:
        """The server's answer to a request, sent with the screenshots that the server lacks."""
        names = await asyncio.to_thread(lambda: [self._pictures.name(frame) for frame in request.frames])
        frames = dict(zip(names, request.frames, strict=True))
        params = {**self._params, "max_tokens": limit}

        async def ask(sending: set[str]) -> bytes | Missing:
            def body() -> bytes:
                sent = {name: self._pictures.picture(frames[name]) for name in sending}
                return wire.body(request, names, sent, replica.model, params, self._encoder.image_token)

            return await self._ask(replica, await asyncio.to_thread(body))

        answer = await ask_with_frames(names, ask)
        if isinstance(answer, Missing):
            message = f"{len(answer.names)} screenshots did not reach the server whole"
            raise _fault("frames_damaged", message, retryable=True)
        return answer

    async def _ask(self, replica: Replica, body: bytes) -> bytes | Missing:
        """The server's answer to one request, after up to `patience.attempts` attempts."""
        patience, attempt = self._patience, 1
        while True:
            try:
                async with asyncio.timeout(patience.timeout_s):
                    status, raw = await self._post(replica, body)
            except TimeoutError:
                failure = _fault("deadline", f"no answer within {patience.timeout_s:.0f} s", retryable=True)
                attempt = patience.attempts
            except httpx.RequestError as error:
                failure = _fault("unreachable", str(error) or type(error).__name__, retryable=True)
            else:
                if status == 200:
                    return raw
                if status == MISSING:
                    return wire.missing(raw)
                said = " ".join(raw.decode(errors="replace").split())[:200]
                if status == 404 and replica.model == ADAPTER:  # restarted by others, without our adapter
                    self._lose(replica)
                    raise _fault(wire.UNVERSIONED, said, retryable=True)
                if status in _MISCONFIGURED:
                    raise InfrastructureError(
                        f"{replica.server.url} answered {status}: {said}; check the address, the key "
                        "and that it was started as training.engine.vllm.server starts it"
                    )
                failure = _fault(f"http_{status}", said, retryable=status == 429 or status >= 500)
            if not failure.fault.retryable:
                raise failure
            if not await asyncio.to_thread(replica.healthy):
                self._lose(replica)
                raise _fault(
                    "server_died", "the vLLM server died; it is started anew", retryable=True
                ) from failure
            if attempt >= patience.attempts:
                raise failure
            await asyncio.sleep(patience.pause(attempt))
            attempt += 1

    async def _post(self, replica: Replica, body: bytes) -> tuple[int, bytes]:
        """Status and body of one answer. Raises FaultError if it is too long."""
        if self._client is None:
            timeout = httpx.Timeout(None, connect=10.0)
            limits = httpx.Limits(max_connections=None)
            self._client = httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=False)
        headers = {"Authorization": f"Bearer {replica.server.token}", "Content-Type": "application/json"}
        url = replica.server.url + PATH
        async with self._client.stream("POST", url, content=body, headers=headers) as response:
            raw = bytearray()
            async for chunk in response.aiter_bytes():
                raw += chunk
                if len(raw) > wire.MAX_REPLY_BYTES:
                    raise wire.bad_reply("it is too long")
            return response.status_code, bytes(raw)

    # -- servers that died ----------------------------------------------------------------------------------

    def _lose(self, replica: Replica) -> None:
        replica.down = True
        self._start(replica)

    def _start(self, replica: Replica) -> asyncio.Task[None]:
        """The task that restarts a server: one task for all requests that wait for it."""
        if (task := self._starting.get(replica)) is None:
            task = asyncio.create_task(asyncio.to_thread(self._restart, replica))
            self._starting[replica] = task
            task.add_done_callback(partial(self._started, replica))
        return task

    def _started(self, replica: Replica, task: "asyncio.Task[None]") -> None:
        del self._starting[replica]
        if not task.cancelled():
            task.exception()  # raised for requests that wait; without any, the next request tries again

    def _restart(self, replica: Replica) -> None:
        with self._updating:
            if replica.down and not self._closed:
                replica.start(self._newest, self._version)

    # -- new weights, all with the lock held ----------------------------------------------------------------

    def _label(self, replica: Replica, version: int) -> None:
        try:
            if not replica.down:
                replica.label(version)
        except ServerLost:
            replica.down = True

    def _roll_out(self, weights: Written) -> None:
        """Give `weights` to one server after the other. If this raises, all go on with the old ones."""
        taken: list[Replica] = []
        lost: list[ServerLost] = []
        for replica in self._replicas:
            replica.updating = True
            try:
                self._give(replica, weights)
                taken.append(replica)
            except WeightsRefused:
                for other in taken:
                    self._give_back(other)
                raise
            except ServerLost as error:
                replica.down = True
                lost.append(error)
            finally:
                replica.updating = False
        if not taken:
            for replica in self._replicas:
                self._give_back(replica)
            raise InfrastructureError(f"no server took version {weights.version} of the weights: {lost[0]}")

    def _give(self, replica: Replica, weights: Written) -> None:
        """Give `weights` to one server. Raises WeightsRefused, or ServerLost if a restart did not help."""
        if not replica.down:
            try:
                return replica.take(weights)
            except ServerLost:
                replica.down = True
        try:
            replica.start(self._newest, self._version)
        except InfrastructureError as error:  # also if it refuses the old weights
            raise ServerLost(str(error)) from error
        replica.take(weights)

    def _give_back(self, replica: Replica) -> None:
        """Return a server to the old weights; if that fails it is down, and the next request restarts it."""
        try:
            if self._newest is None or replica.down:
                replica.start(self._newest, self._version)
            else:
                replica.take(self._newest)
        except InfrastructureError:
            replica.down = True


def _fault(code: str, message: str, *, retryable: bool) -> FaultError:
    return FaultError(Fault("policy", code, message, retryable=retryable))
