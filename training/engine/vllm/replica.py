"""Client of one vLLM server: starts it, updates its weights in the right order, and checks its health.

The order was found by trial (vLLM 0.32). New weights are checked while the old ones serve. Then the
scheduler is paused with its requests kept, the weights are loaded, and all that was computed from the old
ones is dropped: the prefix cache, for which the running requests are preempted and encoded again later, and
the caches of pictures, of which the scheduler and the worker each hold a half: without that reset a picture
that comes again crashes the engine. Only then the new version's name is set, and the scheduler is resumed. A
completion in progress continues; the server reports which version sampled which of its tokens.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import httpx

from guiagent.errors import InfrastructureError
from training.engine.vllm.command import MODEL
from training.engine.weights import Written

ADAPTER = "adapter"  # the name that requests call a LoRA adapter by
_UPDATE_TIMEOUT_S = 600.0
_MAX_ANSWER_BYTES = 2**20
_HEALTH_TIMEOUT_S = 30.0  # its API server may be busy with pictures of other requests
_PATIENCE_S = 60.0  # how long to wait for a server that others start


class WeightsRefused(InfrastructureError):
    """The new weights are damaged, or of another model. The server goes on with the old ones."""


class ServerLost(InfrastructureError):
    """The server is gone, or may hold half of an update: restart it."""


class Server(Protocol):
    """A vLLM server: `VllmServer`, or one that others started."""

    token: str

    @property
    def url(self) -> str: ...

    @property
    def alive(self) -> bool:
        """False only if it is certain that the server does not run."""
        ...

    def start(self) -> None: ...

    def close(self) -> None: ...


class RemoteServer:
    """A server that others start and end; a `Server`."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self.token = token
        self.alive = True

    def start(self) -> None:
        """Wait until it answers. Raises InfrastructureError if it does not: only its owner can start it."""
        deadline = time.monotonic() + _PATIENCE_S
        with httpx.Client(trust_env=False, timeout=_HEALTH_TIMEOUT_S) as client:
            while time.monotonic() < deadline:
                with suppress(httpx.RequestError):
                    if client.get(f"{self.url}/health").status_code == 200:
                        return
                time.sleep(1)
        raise InfrastructureError(f"the vLLM server at {self.url} does not answer: start it there again")

    def close(self) -> None:
        """Do nothing: its owner ends it."""


class Replica:
    """A server and the engine's record of it: requests in progress, busy time, whether it is down."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.busy = 0  # requests in progress
        self._busy_s, self._busy_since = 0.0, 0.0
        self.updating = False
        self.down = True
        self.model = MODEL
        self._client = httpx.Client(trust_env=False)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Count a request as in progress while the block runs."""
        if self.busy == 0:
            self._busy_since = time.monotonic()
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1
            if self.busy == 0:
                self._busy_s += time.monotonic() - self._busy_since

    @property
    def busy_s(self) -> float:
        """The seconds in which at least one request was in progress."""
        return self._busy_s + (time.monotonic() - self._busy_since if self.busy else 0.0)

    def start(self, weights: Written | None, version: int) -> None:
        """Start the server, give it `weights` (None: keep those it starts with), and label them `version`.

        If this raises InfrastructureError, the replica is down.
        """
        self.down, self.model = True, MODEL
        self.server.start()
        if weights is not None:
            self.take(weights)
        self.label(version)
        self._post("/resume")  # an update of a server that is not ours may have been interrupted
        self.down = False

    def take(self, weights: Written) -> None:
        """Make the server sample from `weights` from now on.

        Raises WeightsRefused, with nothing changed, or ServerLost.
        """
        manifest = json.dumps(weights.manifest)
        path = str(weights.file.resolve())
        checked = self._call("check_weights", path=path, manifest=manifest, adapter=weights.adapter)
        if (refused := _first_error(checked)) is not None:
            raise WeightsRefused(f"version {weights.version} of the weights was refused: {refused}")
        self._post("/pause?mode=keep")
        if weights.adapter:
            adapter = {"lora_name": ADAPTER, "lora_path": str(weights.path.resolve()), "load_inplace": True}
            self._post("/v1/load_lora_adapter", adapter)
        elif (failed := _first_error(self._call("load_weights"))) is not None:
            raise ServerLost(f"version {weights.version} of the weights could not be loaded: {failed}")
        if self._post("/reset_prefix_cache?reset_running_requests=true") != {"success": True}:
            raise ServerLost("the server kept a prefix cache of the old weights")
        self._post("/reset_mm_cache")
        self._post("/reset_encoder_cache")
        self.label(weights.version)
        self._post("/resume")
        self.model = ADAPTER if weights.adapter else MODEL

    def label(self, version: int) -> None:
        """Set the version of the server's current weights. Raises ServerLost."""
        self._post("/update_weight_version", {"new_version": str(version)})

    def healthy(self) -> bool:
        """Whether the server's engine lives. Blocks while it is asked, for about 30 s at most."""
        if not self.server.alive:
            return False
        try:
            return self._client.get(f"{self.server.url}/health", timeout=_HEALTH_TIMEOUT_S).status_code == 200
        except httpx.HTTPError:
            return False

    def close(self) -> None:
        """End the server, if it is ours to end."""
        self.server.close()
        self._client.close()

    def _call(self, method: str, **arguments: Any) -> Any:
        """Call a method of `training.engine.vllm.worker.Weights` on every worker; return their answers."""
        answer = self._post("/collective_rpc", {"method": method, "kwargs": arguments})
        return answer.get("results") if isinstance(answer, dict) else None

    def _post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """POST, and return the answer's JSON; None if it is not JSON. Raises ServerLost."""
        headers = {"Authorization": f"Bearer {self.server.token}"}
        url = self.server.url + path
        timeout = httpx.Timeout(_UPDATE_TIMEOUT_S, connect=10.0)
        try:
            with self._client.stream("POST", url, json=body, headers=headers, timeout=timeout) as response:
                raw = _bounded(response, url)
        except httpx.HTTPError as error:
            raise ServerLost(f"{url} does not answer: {error or type(error).__name__}") from None
        if response.status_code != 200:
            said = " ".join(raw.decode(errors="replace").split())[:200]
            raise ServerLost(f"{url} answered {response.status_code}: {said}")
        try:
            return json.loads(raw)
        except (ValueError, RecursionError):
            return None


def _bounded(response: httpx.Response, url: str) -> bytes:
    """Read a response's body. Raises ServerLost if it is too long or takes too long."""
    deadline, raw = time.monotonic() + _UPDATE_TIMEOUT_S, bytearray()
    for chunk in response.iter_bytes():
        raw += chunk
        if len(raw) > _MAX_ANSWER_BYTES or time.monotonic() > deadline:
            raise ServerLost(f"{url} answers without end")
    return bytes(raw)


def _first_error(answers: Any) -> str | None:
    """The first error in the workers' answers; None if all of them succeeded."""
    if not isinstance(answers, list) or not answers:
        return "the server's worker does not know us: it was started without our part"
    for answer in answers:
        if not isinstance(answer, dict) or "tensors" not in answer:
            said = answer.get("error") if isinstance(answer, dict) else answer
            return " ".join(str(said).split())[:400]
    return None
