"""`guiagent eval` on WebArena's files, from JSON to a score: a farm's browser, a shop that stands in."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from eval.suites import BY_PATH, find_suite
from guiagent.cli import app
from guiagent.errors import UsageError
from tests.support.model_stand_in import Body, StandIn, stand_in
from tests.support.shop import Shop, running_shop

FILES = Path(__file__).parents[1] / "support/webarena_tasks/tasks.json"
BUY, SIMILAR, VERIFIED, REVIEW = json.loads(FILES.read_text())
ELSEWHERE = BUY | {"task_id": 3, "start_url": "__GITLAB__"}


@pytest.fixture
def shop() -> Iterator[Shop]:
    with running_shop() as one:
        yield one


def customer(body: Body) -> str:
    """A model that clicks once and then says what it got; asked to compare answers, it is content."""
    said = json.dumps(body["messages"])
    if "reference" in said:
        return "SCORE: 1"
    if not any(message["role"] == "assistant" for message in body["messages"]):
        return "Action: click(start_box='<|box_start|>(600,300)<|box_end|>')"
    kind = "MUTATE" if "Send the review" in said else "RETRIEVE"
    data = {"task_type": kind, "status": "SUCCESS", "retrieved_data": ["lamp"]}
    answer = json.dumps(data).replace('"', '\\"') if "JSON object" in said else "lamp"
    return f"Action: finished(content='{answer}')"


@pytest.fixture
def model() -> Iterator[StandIn]:
    with stand_in(customer) as server:
        yield server


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in ("eval", *words)])


def written(folder: Path, *tasks: dict[str, Any]) -> Path:
    (folder / "tasks.json").write_text(json.dumps(tasks))
    return folder / "tasks.json"


def results(run: Path) -> dict[str, Any]:
    (path,) = run.glob("http*/results.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.browser
def test_from_files_to_scores_on_sites_that_the_result_names(
    tmp_path: Path, shop: Shop, model: StandIn
) -> None:
    path, run = written(tmp_path, BUY, SIMILAR, ELSEWHERE, VERIFIED, REVIEW), tmp_path / "run"
    (tmp_path / "judge.toml").write_text(f'url = "{model.url}"\nmodel = "m"\n')
    secret = shop.url.replace("http://", "http://me:secret@")
    words = ("--suite", f"webarena:{path}", "--tasks", "1,2,4", "--episodes", 1, "--devices", 1)
    words = (*words, "--baselines", "none", "--site", f"SHOPPING={secret}", "--site", f"MAP={shop.url}")
    words = (*words, "--judge", tmp_path / "judge.toml")
    done = invoke("--policy", f"{model.url}/v1#m", "--run", run, *words)
    assert done.exit_code == 0, (done.output, done.exception)
    found = results(run)
    assert {one["task"]: one["value"] for one in found["episodes"]} == dict.fromkeys("124", 1.0)
    assert found["ran"]["addresses"] == {"SHOPPING": shop.url, "MAP": shop.url, "judge": f"{model.url}#m"}
    assert f"127.0.0.1:{shop.url.rpartition(':')[2]}" in found["ran"]["network"]
    assert "secret" not in "".join(one.read_text() for one in run.rglob("*.json"))
    held = invoke("--verify", run, "--devices", 1, *words[8:])
    assert held.exit_code == 0 and "3 of 3 came out again" in held.output, (held.output, held.exception)
    with running_shop() as other:
        moved = invoke("--policy", f"{model.url}/v1#m", "--run", run, *words, "--site", f"MAP={other.url}")
    assert "with other settings" in str(moved.exception)  # nothing is mixed with results of other sites


@pytest.mark.browser
def test_requests_are_read_on_a_browser_that_tells_them(tmp_path: Path, shop: Shop, model: StandIn) -> None:
    words = ("--suite", f"webarena:{written(tmp_path, REVIEW)}", "--site", f"MAP={shop.url}")
    words = (*words, "--episodes", 1, "--devices", 1, "--baselines", "none")
    for device, outcome in (("browser@1280x720,cdp", "success"), ("browser@1280x720", "fault")):
        run = tmp_path / outcome
        done = invoke("--policy", f"{model.url}/v1#m", "--run", run, "--device", device, *words)
        assert done.exit_code == 0, (done.output, done.exception)
        (episode,) = results(run)["episodes"]
        assert episode["outcome"] == outcome and ("unsuitable_device" in episode["detail"]) == (
            outcome == "fault"
        )


@pytest.mark.browser
def test_a_site_that_ends_in_the_middle_is_a_fault_and_never_0(
    tmp_path: Path, shop: Shop, model: StandIn
) -> None:
    shop.deadly = True
    words = ("--suite", f"webarena:{written(tmp_path, BUY)}", "--site", f"SHOPPING={shop.url}")
    words = (*words, "--episodes", 1, "--devices", 1, "--baselines", "none")
    done = invoke("--policy", f"{model.url}/v1#m", "--run", tmp_path / "run", *words)
    assert done.exit_code == 0, (done.output, done.exception)
    (episode,) = results(tmp_path / "run")["episodes"]
    assert (episode["outcome"], episode["value"], episode["attempts"]) == ("fault", None, 3)
    assert "task fault (unreachable): cannot open http://127.0.0.1" in episode["detail"]


@pytest.mark.browser
def test_what_cannot_be_is_one_line_and_nothing_is_played(tmp_path: Path) -> None:
    path = written(tmp_path, BUY, ELSEWHERE)
    for words, said in (
        ((f"webarena:{path}",), "without one in"),
        ((f"webarena:{path}", "--site", "SHOPPING=http://x"), "task 3 is on GITLAB"),
        ((f"webarena:{path}", "--site", "http://x"), "write SITE=ADDRESS"),
        ((f"webarena:{tmp_path / 'none.json'}",), "there is no "),
        (("lab", "--site", "SHOPPING=http://x"), "for the suite webarena:PATH, not for lab"),
    ):
        refused = invoke("--policy", "null", "--run", tmp_path / "run", "--suite", *words)
        assert isinstance(refused.exception, UsageError) and said in str(refused.exception), words
        assert "\n" not in str(refused.exception)
    assert not list(tmp_path.glob("run/*/trajectories"))


def test_a_suite_of_files_keeps_its_name_and_digest_on_other_sites(tmp_path: Path) -> None:
    path = written(tmp_path, BUY, VERIFIED)
    here, there = (find_suite(f"webarena:{path},SHOPPING=http://{host}") for host in ("10.0.0.7:80", "shop"))
    assert (here.name, here.digest) == (there.name, there.digest) == (f"webarena:{path}", here.digest)
    assert (here.addresses, there.addresses) == (
        {"SHOPPING": "http://10.0.0.7:80"},
        {"SHOPPING": "http://shop"},
    )
    assert here.lease["egress"] == ("public", "10.0.0.7:80")
    assert here.groups["site"] == {"1": "shopping", "4": "map"}
    path.write_text(path.read_text().replace("lamp", "desk"))
    assert find_suite(f"webarena:{path}").digest != here.digest
    with pytest.raises(UsageError, match=f"{next(iter(BY_PATH))}FOLDER, .*webarena:FOLDER"):
        find_suite("zzz")
