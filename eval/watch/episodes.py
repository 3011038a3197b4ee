"""An episode as the live page shows it: plain data with bounded texts, which the page sets as text."""

from typing import Any

import msgspec
from pydantic import ValidationError

from eval.report.overlay import describe, overlay
from eval.report.viewer import STOPS, plain
from guiagent.actions import ACTIONS, Action
from guiagent.storage.following import Place
from guiagent.types import Score, Step, Trajectory

_MOST_STEPS = 500
_MOST_TEXT = 20_000  # characters of what the policy emitted in a turn
_MOST_EVIDENCE = 8_000


def address(place: Place) -> str:
    return f"{place.segment}.{place.offset}"


def summary(place: Place, trajectory: Trajectory) -> dict[str, Any]:
    """One line about an episode."""
    score, last = trajectory.score, trajectory.steps[-1] if trajectory.steps else None
    return {
        "at": address(place),
        "task": plain(trajectory.task, 300),
        "seed": trajectory.seed,
        "verdict": _verdict(trajectory),
        "score": score.value if score else None,
        "steps": len(trajectory.steps),
        "stop": STOPS[trajectory.stop],
        "device": plain(trajectory.device, 200),
        "frame": trajectory.final_frame or (last.frame if last else ""),
        "version": last.policy.policy_version if last else None,
        "ended": trajectory.started + trajectory.seconds,
        "seconds": trajectory.seconds,
        "adopted": not trajectory.group,
    }


def whole(place: Place, trajectory: Trajectory) -> dict[str, Any]:
    """An episode step by step."""
    return summary(place, trajectory) | {
        "id": plain(trajectory.id, 300),
        "group": plain(trajectory.group, 300),
        "instruction": plain(trajectory.instruction, 4_000),
        "final_frame": trajectory.final_frame,
        "fault": plain(trajectory.fault.message, 2_000) if trajectory.fault else "",
        "answer": plain(trajectory.ending.answer or "", 2_000),
        "claim": trajectory.ending.claim or "",
        "scores": [
            _score(name, score)
            for name, score in (("score", trajectory.score), ("audit, never trained on", trajectory.audit))
            if score is not None
        ],
        "turns": [_turn(step) for step in trajectory.steps[:_MOST_STEPS]],
    }


def _turn(step: Step) -> dict[str, Any]:
    actions = _readable(step)
    logprobs = [logprob for call in step.policy.sampled for logprob in call.logprobs]
    return {
        "frame": step.frame,
        "width": step.width,
        "height": step.height,
        "marks": overlay(actions, step.width, step.height),
        "did": plain("; ".join(describe(action) for action in actions), 2_000) or "nothing was executed",
        "text": plain(step.policy.text, _MOST_TEXT),
        "errors": [plain(error, 2_000) for error in (step.policy.error, step.action_error) if error],
        "tokens": sum(len(call.completion_ids) for call in step.policy.sampled),
        "logprob": sum(logprobs) / len(logprobs) if logprobs else None,
        "policy_ms": step.policy_ms,
        "device_ms": step.device_ms,
    }


def _readable(step: Step) -> list[Action]:
    """The stored actions; [] if they are not valid actions, since anyone may have written the store."""
    try:
        return ACTIONS.validate_python(step.policy.actions)
    except ValidationError:
        return []


def _score(name: str, score: Score) -> dict[str, Any]:
    evidence = msgspec.json.format(msgspec.json.encode(score.evidence), indent=2).decode()
    return {
        "name": name,
        "value": score.value,
        "source": score.source,
        "reward": score.reward,
        "progress": score.progress,
        "reason": plain(score.reason, 4_000),
        "side_effects": [plain(effect, 300) for effect in (score.side_effects or [])[:50]],
        "evidence": plain(evidence, _MOST_EVIDENCE) if score.evidence else "",
    }


def _verdict(trajectory: Trajectory) -> str:
    if trajectory.fault is not None:
        return "fault"
    if not trajectory.valid:
        return "unknown"
    return "success" if trajectory.success else "failure"
