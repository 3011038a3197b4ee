"""All algorithms by the name that a recipe gives; importing them needs no torch."""

from guiagent.errors import UsageError, nearest
from training.algorithms.adagrpo import ADAGRPO
from training.algorithms.algorithm import Algorithm
from training.algorithms.arpo import ARPO
from training.algorithms.bepa import BEPA
from training.algorithms.cloning import BC, PAE
from training.algorithms.dart import DART_CODE, DART_PAPER
from training.algorithms.digirl import DIGIRL
from training.algorithms.empg import EMPG
from training.algorithms.epo import EPO
from training.algorithms.gigpo import GIGPO
from training.algorithms.group_relative import DAPO, DR_GRPO, GRPO, GSPO, RLOO
from training.algorithms.igpo import IGPO
from training.algorithms.ppo import PPO
from training.algorithms.seagent import SEAGENT
from training.algorithms.spa import SPA
from training.algorithms.st_ppo import ST_PPO
from training.algorithms.steve import STEVE
from training.algorithms.traj_rpo import TRAJ_RPO
from training.algorithms.uis1 import UIS1
from training.algorithms.webrl import WEBRL
from training.algorithms.zerogui import ZEROGUI

ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        *(ARPO, TRAJ_RPO, ZEROGUI, DART_PAPER, DART_CODE, BEPA, ADAGRPO),
        *(GIGPO, UIS1, SPA, EMPG, IGPO, EPO, ST_PPO),
        *(SEAGENT, STEVE, PAE, BC, DIGIRL, WEBRL),
        *(GRPO, PPO, DAPO, DR_GRPO, GSPO, RLOO),
    )
}


def find_algorithm(name: str) -> Algorithm:
    """Return the algorithm of that name. Raises UsageError if there is none."""
    if name not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise UsageError(f"no algorithm {name!r}{nearest(name, ALGORITHMS) or f'; known: {known}'}")
    return ALGORITHMS[name]
