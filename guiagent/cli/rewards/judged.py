"""Figures of a run rewarded by a judge, for its report, with the judge's calibration on the run's audits."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from eval.report.judged import JudgedRun, JudgedUpdate
from eval.results import write_json
from guiagent.cli.rewards.judging import CALIBRATION, known_truth, rule_of
from guiagent.types import Trajectory
from rewards.judges.calibration import Calibration, calibrate
from rewards.judges.config import JudgeConfig
from rewards.judges.log import VERDICTS, Entry, VerdictLog
from rewards.judges.verdicts import Verdict
from training.metrics import writer
from training.rollout import proposals


def judged_run(run: Path, config: JudgeConfig, rolled_out: Sequence[Trajectory]) -> JudgedRun:
    """Collect the figures from the run's files, and write `calibration.json` among them."""
    updates = [line for line in writer.read(run) if "agreement" in line]
    outcomes = [entry.outcome for entry in proposals.read(run) if entry.outcome is not None]
    committed = {trajectory.id for trajectory in rolled_out}
    with VerdictLog(run / VERDICTS) as log:
        verdicts = [entry for entry in log if entry.trajectory in committed]
    unknown = [entry.verdict for entry in verdicts if entry.verdict.value is None]
    found = _calibrated(verdicts, config, rolled_out)
    if found is not None:
        write_json(run / CALIBRATION, found)
    return JudgedRun(
        judge=verdicts[-1].verdict.judge if verdicts else config.model,
        updates=[JudgedUpdate(step=line["step"], **line["agreement"]) for line in updates],
        proposals=Counter(outcome.refusal or "accepted" for outcome in outcomes),
        unknown=Counter(verdict.fault.code if verdict.fault else "abstained" for verdict in unknown),
        calibration=found,
    )


def _calibrated(
    verdicts: Sequence[Entry[Verdict]], config: JudgeConfig, rolled_out: Sequence[Trajectory]
) -> Calibration | None:
    """Calibrate the judge that gave the newest verdict, since a run may have changed its judge; None if no
    verdict was audited."""
    truths = {t.id: truth for t in rolled_out if (truth := known_truth(t)) is not None}
    pairs = [(truths[e.trajectory], e.verdict) for e in verdicts if e.trajectory in truths]
    same = [(truth, verdict) for truth, verdict in pairs if verdict.judge == pairs[-1][1].judge]
    return calibrate(same, rule_of(config)) if same else None
