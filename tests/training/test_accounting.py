"""What an update's figures say of the time of devices, engine and trainer."""

import math
from itertools import count

import pytest

from guiagent.errors import Fault
from guiagent.types import PolicyOutput, Score, Step, Trajectory
from training.engine.engine import EngineStats
from training.metrics.utilisation import UtilizationMeter, group_outcome
from training.metrics.writer import Phases
from training.replay import Group

_ids = count()


def episode(
    value: float | None, *, steps=2, tokens=5, seconds=10.0, fault: Fault | None = None
) -> Trajectory:
    turns = [
        Step("", 1, 1, PolicyOutput("x", completion_ids=[1] * tokens), policy_ms=1500.0) for _ in range(steps)
    ]
    return Trajectory(
        f"t{next(_ids)}", "a", 0, "", turns, "task_done", Score(value), fault=fault, seconds=seconds
    )


def group(*sampled: Trajectory, extra: tuple[Trajectory, ...] = ()) -> Group:
    return Group("g0", "a", 0, sampled, (*sampled, *extra), 0)


IDLE = EngineStats()
CRASH = Fault("device", "crashed", "gone")


def test_what_devices_did_and_what_of_it_was_learned_from():
    ledger = UtilizationMeter(devices=4)
    won, lost, crashed, unseen = episode(1.0), episode(0.0), episode(None, fault=CRASH), episode(0.0)
    for trajectory in (won, lost, crashed, unseen):
        ledger.episode(trajectory)
    ledger.learned([group(won, lost, crashed)], {won.id, lost.id})
    figures = ledger.figures(20.0, {"learning": 5.0, "waiting": 15.0}, IDLE)
    assert figures["device_utilisation"] == 40 / 80
    assert figures["useful_device_utilisation"] == 20 / 80
    assert figures["trainer_utilisation"] == 0.25
    assert figures["phase_seconds"] == {"learning": 5.0, "waiting": 15.0}
    assert figures["env_steps_per_second"] == 8 / 20
    assert figures["sampled_tokens_per_second"] == 40 / 20
    assert figures["trained_tokens_per_second"] == 20 / 20
    assert figures["completions_in_flight"] == 12 / 20
    assert (figures["fault_rate"], figures["faults_by_code"]) == (1 / 4, {"device/crashed": 1})
    assert figures["groups"] == {"all_fail": 0, "all_success": 0, "mixed": 1}


def test_a_group_that_fared_alike_is_learned_from_and_of_no_use():
    ledger = UtilizationMeter(devices=1)
    mixed, alike = [episode(1.0), episode(0.0)], [episode(0.0, seconds=90.0), episode(0.0, seconds=90.0)]
    ledger.learned([group(*mixed), group(*alike)], {trajectory.id for trajectory in mixed})
    figures = ledger.figures(200.0, {}, IDLE)
    assert figures["useful_device_utilisation"] == 20 / 200  # not the 200 of 200 that came to the trainer
    assert figures["groups"] == {"all_fail": 1, "all_success": 0, "mixed": 1}


def test_figures_are_of_the_time_since_the_last_and_costs_of_the_session():
    ledger = UtilizationMeter(devices=2)
    ledger.episode(episode(0.0))
    first = ledger.figures(10.0, {}, IDLE)
    assert math.isnan(first["device_seconds_per_success"])
    for value in (1.0, 1.0, 0.5):
        ledger.episode(episode(value))
    second = ledger.figures(30.0, {}, IDLE)
    assert second["env_steps_per_second"] == 6 / 30
    assert second["device_seconds_per_success"] == 2 * 40 / 2
    assert second["trainer_seconds_per_success"] == 40 / 2
    idle = ledger.figures(10.0, {}, IDLE)
    assert idle["device_utilisation"] == 0 and math.isnan(idle["fault_rate"])


def test_what_the_engine_did_since_it_was_last_asked():
    ledger = UtilizationMeter(devices=1)
    figures = ledger.figures(10.0, {}, EngineStats(6.0, 1000, 750, 50, 1.5))
    assert (figures["engine_busy_share"], figures["engine_cpu_share"]) == (0.6, 0.15)
    assert figures["engine_sampled_tokens_per_second"] == 5
    assert figures["engine_encoded_tokens_per_second"] == 25
    assert figures["engine_cached_share"] == 0.75
    figures = ledger.figures(10.0, {}, EngineStats(9.0, 1200, 800, 60, 2.0))
    assert figures["engine_busy_share"] == pytest.approx(0.3)
    assert figures["engine_cpu_share"] == pytest.approx(0.05)
    assert figures["engine_sampled_tokens_per_second"] == 1
    assert figures["engine_encoded_tokens_per_second"] == 15
    assert figures["engine_cached_share"] == 0.25
    idle = ledger.figures(10.0, {}, EngineStats(9.0, 1200, 800, 60, 2.0))
    assert idle["engine_busy_share"] == 0 and math.isnan(idle["engine_cached_share"])
    elsewhere = UtilizationMeter(devices=1).figures(10.0, {}, EngineStats(9.0, 1200, 800, 60))
    assert math.isnan(elsewhere["engine_cpu_share"])  # a server does not say


def test_earlier_episodes_are_trained_on_and_cost_no_device():
    ledger = UtilizationMeter(devices=1)
    fresh, earlier = episode(0.0), episode(1.0, tokens=7)
    ledger.learned([group(fresh, extra=(earlier,))], {fresh.id, earlier.id})
    figures = ledger.figures(10.0, {}, IDLE)
    assert figures["useful_device_utilisation"] == 1.0
    assert figures["trained_tokens_per_second"] == (10 + 14) / 10
    assert figures["groups"]["all_fail"] == 1


@pytest.mark.parametrize(
    ("values", "outcome"),
    [((1.0, 1.0), "all_success"), ((0.0, 0.9), "all_fail"), ((0.0, 1.0), "mixed")],
)
def test_the_outcome_of_a_group(values, outcome):
    assert group_outcome([episode(value) for value in values]) == outcome


def test_phases_count_while_they_last_and_begin_anew_when_read():
    phases = Phases()
    with phases("learning"):
        pass
    with pytest.raises(ValueError, match="whatever"), phases("learning"):
        raise ValueError("whatever")
    seconds, read = phases.read()
    assert set(read) == {"learning"} and 0 <= read["learning"] <= seconds
    assert phases.read()[1] == {}
