"""`guiagent train --launch ray`: trainer, engines and players of a run as actors on a Ray cluster.

The trainer owns all that matters: replay, store, curriculum, checkpoints, metrics. It runs the very loop of
`training.train`, with a crew in other processes. Where a host of engines or players dies, with its node or
alone, Ray starts it elsewhere and the run goes on; where the trainer dies, another one goes on from the run's
folder, which is on storage that all nodes share, or at a URL.

The boundary of trust is the cluster: Ray's own transport unpickles, so whoever reaches its ports runs code on
its nodes. A cluster that is started here listens on loopback only and has no dashboard.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from guiagent.errors import InfrastructureError
from training.config import RayConfig, TrainConfig

if TYPE_CHECKING:
    from training.launch.ray_trainer import OpenJudge
    from training.train import Progress, Trained

_OBJECT_STORE_BYTES = 200 * 2**20  # of a cluster that is started here; Ray spills what is more


def train_on_ray(
    config: TrainConfig,
    run: str,
    farm: tuple[str, str],
    on_progress: "Callable[[Progress], None]",
    on_warning: Callable[[str], None],
    open_judge: "OpenJudge",
) -> "Trained":
    """Train in `run`, a folder or a URL, on devices of a farm (its address and token) that all nodes reach.

    `on_warning` is told of lost trainers, of a cluster without room and of storage that stays away.

    Raises what `training.train.train` raises, and InfrastructureError where there is no Ray or no cluster,
    or the trainer was lost too often; the same call then goes on.
    """
    if find_spec("ray") is None:
        raise InfrastructureError("there is no Ray here: pip install 'guiagent[ray]'")
    with _cluster(config.ray):
        from training.launch.ray_driver import drive

        return drive(config, run, farm, on_progress, on_warning, open_judge)


@contextmanager
def _cluster(config: RayConfig) -> Iterator[None]:
    """Joins a cluster, or starts one that is this process's alone and ends with the context."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    folder = tempfile.mkdtemp(prefix="gr-", dir="/tmp")  # short: a socket's path has 107 characters
    told: dict[str, Any] = {"address": config.address}
    if config.address is None:
        # On loopback only, as Ray does where it takes a machine for a laptop, and with a token of its own.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # read once a process
        told = {
            "address": "local",
            "num_cpus": config.engines + config.workers + 1,  # as Ray counts them: actors, and no processors
            "object_store_memory": _OBJECT_STORE_BYTES,
            "include_dashboard": False,
            "_temp_dir": folder,
        }
    import ray  # reads the environment

    try:
        try:
            ray.init(**told, namespace=secrets.token_hex(8), log_to_driver=False, configure_logging=False)
        except (OSError, RuntimeError, ValueError) as error:  # OSError: nobody answers, or no room in /tmp
            reason = " ".join(str(error).split())[:200]
            raise InfrastructureError(f"no Ray cluster at {told['address']}: {reason}") from error
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
