"""Flaws of task files: each is found in a small file that has it, and not in a sound one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rewards.flaws import HARBOR, OSWORLD, VERIFIED, WEBARENA, flaws_of, in_file
from rewards.tasksets.harbor.folder import load
from rewards.tasksets.osworld import Osworld
from rewards.tasksets.osworld.schema import read
from rewards.tasksets.webarena import TaskFile, VerifiedFile, VerifiedTask, WebArenaTask

# -- OSWorld's -----------------------------------------------------------------------------------------------

FILE = {"type": "vm_file", "path": "/home/user/report.txt", "dest": "report.txt"}
GOLD = {"type": "cloud_file", "path": "https://files.example/gold.txt", "dest": "gold.txt"}
TOTAL = {"type": "rule", "rules": {"expected": ["total 1234"]}}
SOUND = {"func": "file_contains", "result": FILE, "expected": TOTAL}


def command(*words: str, shell: bool = False) -> dict[str, Any]:
    return {"type": "vm_command_line", "command": words[0] if shell else list(words), "shell": shell}


def rule(**rules: object) -> dict[str, Any]:
    return {"type": "rule", "rules": rules}


def osworld(evaluator: Mapping[str, Any], **more: Any) -> list[str]:
    whole = {"id": "one", "instruction": "Put the sum into ~/report.txt.", "evaluator": evaluator} | more
    return [flaw.name for flaw in in_file(read(json.dumps(whole).encode(), "file"))]


def executed(*words: str) -> dict[str, Any]:
    return {"type": "execute", "parameters": {"command": list(words)}}


FLAWED_OSWORLD: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "claim-alone": ({"func": "infeasible"}, {}),
    "public-gold": (SOUND | {"func": "compare_text_file", "expected": GOLD}, {}),
    "program-of-the-agent": ({"func": "exact_match", "result": command("date"), "expected": TOTAL}, {}),
    "gold-on-device": (SOUND | {"func": "compare_text_file", "expected": FILE | {"path": "/tmp/gold"}}, {}),
    "nothing-of-the-agent": ({"func": "file_contains", "result": GOLD, "expected": TOTAL}, {}),
    "start-is-gold": (
        SOUND | {"func": "compare_text_file", "expected": GOLD},
        {
            "config": [
                {
                    "type": "download",
                    "parameters": {"files": [{"url": GOLD["path"], "path": FILE["path"]}]},
                }
            ]
        },
    ),
    "only-exists": (
        {
            "func": "exact_match",
            "result": command("[ -f ~/report.txt ] && echo yes", shell=True),
            "expected": TOTAL,
        },
        {},
    ),
    "only-refusals": (
        {
            "func": "check_include_exclude",
            "result": command("cat /tmp/log"),
            "expected": rule(include=[], exclude=["Error"]),
        },
        {},
    ),
    "short-needle": (SOUND | {"expected": rule(expected=["54"])}, {}),
    "expected-in-instruction": (SOUND | {"expected": rule(expected=["the SUM"])}, {}),
    "pipe-in-arguments": (
        {"func": "exact_match", "result": command("ps", "|", "grep", "x"), "expected": TOTAL},
        {},
    ),
    "live-web": ({"func": "is_expected_active_tab", "result": {"type": "active_tab_info"}}, {}),
    "depends-on-today": (
        {
            "func": "check_direct_json_object",
            "result": FILE,
            "expected": {
                "type": "rule_relativeTime",
                "rules": {"relativeTime": {"from": "tomorrow"}, "expected": {"time": "{Year}"}},
            },
        },
        {},
    ),
    "presses-keys-after": (
        SOUND | {"postconfig": [executed("python", "-c", "pyautogui.hotkey('ctrl', 's')")]},
        {},
    ),
    "fixed-sleep": (SOUND | {"postconfig": [{"type": "sleep", "parameters": {"seconds": 2}}]}, {}),
}


def test_a_sound_file_of_osworlds_has_no_flaw() -> None:
    assert osworld(SOUND) == []
    assert set(FLAWED_OSWORLD) == {flaw.name for flaw in OSWORLD}


@pytest.mark.parametrize("name", FLAWED_OSWORLD)
def test_a_flaw_of_osworlds_is_found(name: str) -> None:
    evaluator, more = FLAWED_OSWORLD[name]
    assert name in osworld(evaluator, **more)


def test_what_resembles_a_flaw_of_osworlds_is_none() -> None:
    brighter = SOUND | {"func": "check_brightness_decrease_and_structure_sim", "expected": GOLD}
    start = FLAWED_OSWORLD["start-is-gold"][1]
    assert osworld(brighter, **start) == ["public-gold"]  # it takes the start to measure a change
    elsewhere = {"files": [{"url": GOLD["path"], "path": "/tmp/another"}]}
    same = SOUND | {"func": "compare_text_file", "expected": GOLD}
    assert "start-is-gold" not in osworld(same, config=[{"type": "download", "parameters": elsewhere}])
    piped = command("ps | grep x", shell=True)
    assert "pipe-in-arguments" not in osworld({"func": "exact_match", "result": piped, "expected": TOTAL})
    waits = {"config": [{"type": "sleep", "parameters": {"seconds": 2}}]}
    assert osworld(SOUND, **waits) == []  # before the episode
    assert osworld(SOUND, config=[executed("python", "-c", "pyautogui.hotkey('ctrl', 's')")]) == []


def test_a_page_of_the_browser_itself_is_no_live_web() -> None:
    def at(url: str) -> list[str]:
        shown = {"type": "active_tab_info"}
        return osworld(
            {"func": "is_expected_active_tab", "result": shown, "expected": rule(type="url", url=url)}
        )

    assert at("chrome://settings/passwords") == []
    assert at("https://shop.example/") == ["live-web"]


def test_one_check_of_an_or_is_enough_and_of_an_and_all_are_needed() -> None:
    looks = command("[ -f ~/report.txt ] && echo yes", shell=True)
    two = {"func": ["file_contains", "exact_match"], "result": [FILE, looks], "expected": [TOTAL, TOTAL]}
    assert "only-exists" in osworld(two | {"conj": "or"})
    assert "only-exists" not in osworld(two | {"conj": "and"})


# -- WebArena's ----------------------------------------------------------------------------------------------


def webarena(**evaluation: Any) -> list[str]:
    return [flaw.name for flaw in in_file(web_file(**evaluation))]


def web_file(**evaluation: Any) -> TaskFile:
    whole = {
        "task_id": 1,
        "intent": "How many commits did Ann make on 3/5/2023, one or twelve?",
        "start_url": "__GITLAB__/ann",
        "eval": {"eval_types": ["string_match"], "reference_answers": {"exact_match": "1234"}} | evaluation,
    }
    return msgspec.convert(whole, TaskFile)


def page(**target: Any) -> dict[str, Any]:
    return {
        "eval_types": ["program_html"],
        "program_html": [{"url": "last", "required_contents": {"must_include": ["Ann Other"]}} | target],
    }


def answer(**references: object) -> dict[str, Any]:
    return {"reference_answers": references}


FLAWED_WEBARENA: dict[str, dict[str, Any]] = {
    "claim-alone": answer(fuzzy_match="N/A"),
    "listing-pays": answer(must_include=["Ann Other"]),
    "short-needle": answer(must_include=["14"]),
    "expected-in-intent": answer(must_include=["twelve"]),
    "nothing-expected": page(required_contents={"exact_match": ""}),
    "starts-there": {"eval_types": ["url_match"], "reference_url": "__GITLAB__/bob |OR| __GITLAB__/ann/"},
    "address-is-code": page(url="func:reddit_get_post_url('__last_url__')"),
    "needs-a-model": answer(fuzzy_match=["about a thousand"]),
}


def test_a_sound_file_of_webarenas_has_no_flaw() -> None:
    assert webarena() == [] == webarena(**page())
    assert webarena(eval_types=["url_match"], reference_url="__GITLAB__/bob") == []
    assert set(FLAWED_WEBARENA) == {flaw.name for flaw in WEBARENA}


@pytest.mark.parametrize("name", FLAWED_WEBARENA)
def test_a_flaw_of_webarenas_is_found(name: str) -> None:
    assert name in webarena(**FLAWED_WEBARENA[name])


@pytest.mark.parametrize(
    "empty", [answer(), answer(must_include=[]), {"eval_types": ["url_match"], "reference_url": ""}]
)
def test_an_evaluator_without_a_reference_expects_nothing(empty: dict[str, Any]) -> None:
    assert "nothing-expected" in webarena(**empty)


def test_a_digit_of_a_date_is_no_word_of_the_question() -> None:
    assert "expected-in-intent" not in webarena(**answer(must_include=["5"]))


def verified_file(task_type: str, status: str, *more: str) -> VerifiedFile:
    response = {"task_type": task_type, "status": status, "retrieved_data": None}
    whole = {
        "task_id": 2,
        "intent": "Close the issue.",
        "start_urls": ["__GITLAB__"],
        "eval": [
            {"evaluator": "AgentResponseEvaluator", "expected": response},
            *({"evaluator": name, "expected": {}} for name in more),
        ],
    }
    return msgspec.convert(whole, VerifiedFile)


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        (("retrieve", "SUCCESS"), []),
        (("mutate", "SUCCESS", "NetworkEventEvaluator"), []),
        (("mutate", "SUCCESS"), ["word-alone"]),
        (("navigate", "not_found_error"), ["error-alone"]),
        (("retrieve", "NOT_FOUND_ERROR"), ["error-alone"]),
    ],
)
def test_flaws_of_webarena_verifieds_are_found(answer: tuple[str, ...], names: list[str]) -> None:
    file = verified_file(*answer)
    assert [flaw.name for flaw in in_file(file)] == names
    assert flaws_of(VerifiedTask(file, 0, {})) == in_file(file)
    assert set(names) <= {flaw.name for flaw in VERIFIED}


# -- Harbor's ------------------------------------------------------------------------------------------------


def harbor(where: Path, **files: str) -> list[str]:
    whole = {
        "task.toml": '[verifier]\nenvironment_mode = "separate"',
        "instruction.md": "Do it.",
        "environment/Dockerfile": "FROM debian:bookworm",
        "environment/data.txt": "1 2 3",
        "solution/solve.sh": "echo 6 >/app/sum",
        "tests/test.sh": "#!/bin/bash\n# curl is not called\necho 1 >/logs/verifier/reward.txt\n",
    }
    for name, text in (whole | files).items():
        path = where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text:
            path.write_text(text)
    return [flaw.name for flaw in in_file(load(where))]


SHARED = {"task.toml": "[metadata]"}
FLAWED_HARBOR: dict[str, dict[str, str]] = {
    "test-beside-agent": SHARED,
    "test-from-network": {"tests/test.sh": "apt-get update\nuvx pytest /tests"},
    "test-takes-hooks": SHARED | {"tests/test.sh": "python3 -m pytest \\\n  --noconftest /tests"},
    "answer-within-reach": {"environment/old/run.sh": "echo 6 >/app/sum\n"},
    "tests-mounted": {"environment/docker-compose.yaml": "volumes:\n  - ../tests:/tests"},
    "no-solution": {"solution/solve.sh": ""},
}


def test_a_sound_folder_of_harbors_has_no_flaw(tmp_path: Path) -> None:
    assert harbor(tmp_path / "one") == []
    guarded = {"tests/test.sh": "python3 -m pytest --noconftest -c /dev/null /tests"}
    assert harbor(tmp_path / "two", **SHARED, **guarded) == ["test-beside-agent"]
    assert set(FLAWED_HARBOR) == {flaw.name for flaw in HARBOR}


@pytest.mark.parametrize("name", FLAWED_HARBOR)
def test_a_flaw_of_harbors_is_found(name: str, tmp_path: Path) -> None:
    assert name in harbor(tmp_path, **FLAWED_HARBOR[name])


# -- tasks ---------------------------------------------------------------------------------------------------


def test_a_task_has_the_flaws_of_its_file_and_ours_have_none() -> None:
    osworlds = Osworld(Path("tests/support/osworld_tasks")).task("os-infeasible", 0)
    assert [flaw.name for flaw in flaws_of(osworlds)] == ["claim-alone"]
    webarenas = WebArenaTask(web_file(**FLAWED_WEBARENA["listing-pays"]), 0)
    assert [flaw.name for flaw in flaws_of(webarenas)] == ["listing-pays"]
    assert flaws_of(object()) == []
