"""`guiagent train --launch ray`: trainers, engines and rollout workers of a run on a Ray cluster.

The trainers are workers of Ray Train, which share one learner as torchrun's processes do: FSDP2 over all
their nodes. Their rank 0 owns the run's state: replay, store, curriculum, checkpoints, metrics. It runs the
loop of `training.train`, with engines and rollout workers that are actors of Ray Core. If a host of those
dies, alone or with its node, Ray starts it elsewhere and the run goes on; if a trainer dies, new trainers
continue from the run's folder, which is on storage that all nodes share, or at a URL.

The cluster is the boundary of trust: Ray's own transport unpickles, so whoever reaches its ports can run code
on its nodes. A cluster that is started here listens on loopback only and has no dashboard.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import AutoConfig

from guiagent.errors import InfrastructureError, MissingProgram
from training import placement
from training.config import TrainConfig, checkpoint_folder
from training.inputs.checkpoint_files import readable
from training.model.architecture import Architecture

if TYPE_CHECKING:
    from training.launch.ray_trainer import OpenJudge
    from training.metrics.observer import Progress
    from training.train import Trained

_EPISODES_BYTES = 200 * 2**20  # room for episodes in the object store of a cluster started here
_RAY_TRAIN = {  # read by Ray Train, which passes some of them on to the processes it starts
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # the path of a run's folder may be relative
    "RAY_TRAIN_METRICS_ENABLED": "0",  # they are for the dashboard
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # its actor is not needed: checkpoints cover preemption
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "30",  # after it we report what we wait for, and wait on
}


def store_bytes(config: TrainConfig) -> int:
    """Return the size of the object store of a cluster started here; Ray spills what is more to disk.

    It has room for episodes, and for two versions of the weights in float32: an engine that comes back still
    fetches the one before. Where only adapters travel, for two versions of those.
    """
    folder = checkpoint_folder(config.policy, weights=False)
    with readable(folder):
        sizes = Architecture.of(AutoConfig.from_pretrained(folder, local_files_only=True))
    vllm, lora = config.rollout.vllm, config.update.lora
    if lora is not None and vllm is not None and vllm.update == "lora":
        return _EPISODES_BYTES + 2 * 4 * sizes.adapters(lora.rank)
    return _EPISODES_BYTES + 2 * 4 * sizes.parameters


async def train_on_ray(
    config: TrainConfig,
    run: str,
    farm: tuple[str, str],
    on_progress: "Callable[[Progress], None]",
    on_warning: Callable[[str], None],
    open_judge: "OpenJudge",
) -> "Trained":
    """Train in `run`, a folder or a URL, on devices of a farm (its address and token) that all nodes reach.

    `on_warning` is called about lost trainers, a cluster without room, and unreachable storage.

    Raises what `training.launch.wiring.train` raises, and InfrastructureError if there is no Ray or no
    cluster, or the trainers were lost too often; the same call then continues the run.
    """
    if any(find_spec(needed) is None for needed in ("ray", "pyarrow", "pandas")):  # the latter of Ray Train's
        raise MissingProgram("there is no Ray here: pip install 'guiagent[ray]'")
    with _cluster(config) as scratch:
        from training.launch.ray_driver import drive

        return await drive(config, run, farm, on_progress, on_warning, open_judge, scratch)


@contextmanager
def _cluster(config: TrainConfig) -> Iterator[Path]:
    """Join a cluster, or start a private one that ends with the context; yield a folder that ends with it."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    for name, value in _RAY_TRAIN.items():
        os.environ.setdefault(name, value)
    folder = tempfile.mkdtemp(prefix="gr-", dir="/tmp")  # short: a socket's path has 107 characters
    settings: dict[str, Any] = {"address": config.ray.address}
    if config.ray.address is None:
        engines, trainers, _ = placement.on_ray(config)
        # On loopback only, as Ray does on a laptop, and with a token of its own.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # read once a process
        settings = {
            "address": "local",
            # As Ray counts them: actors, and no processors.
            "num_cpus": len(engines) + config.ray.workers + trainers,
            "object_store_memory": store_bytes(config),
            "include_dashboard": False,
            "_temp_dir": folder,
        }
    import ray  # reads the environment

    try:
        try:
            ray.init(**settings, namespace=secrets.token_hex(8), log_to_driver=False, configure_logging=False)
        except (OSError, RuntimeError, ValueError) as error:  # OSError: no answer, or no room in /tmp
            reason = " ".join(str(error).split())[:200]
            raise InfrastructureError(f"no Ray cluster at {settings['address']}: {reason}") from error
        yield Path(folder, "train")
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
