"""WebArena's and WebArena-Verified's task files on a real browser, with a shop that stands in for a site."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from guiagent.actions import Click, Open
from guiagent.dialects import find_dialect
from guiagent.episode import PastTurn
from guiagent.errors import FaultError, InfrastructureError, UsageError
from guiagent.policies import ChatPolicy, ChatServer
from guiagent.types import Ending, Observation, ObserveSpec, Picture, ResetSpec, Score
from rewards.catalogue import find_taskset, training_names
from rewards.tasksets.webarena import Evaluation, TaskFile, WebArena, WebArenaTask, named, with_words
from rewards.tasksets.webarena import sites as places
from tests.support.browser_pages import running
from tests.support.model_stand_in import stand_in
from tests.support.shop import Shop, running_shop

BLIND = ObserveSpec(frame="none")


@pytest.fixture
def shop() -> Iterator[Shop]:
    with running_shop() as one:
        yield one


def task_file(**evaluation: Any) -> dict[str, Any]:
    return {
        "task_id": 7,
        "sites": ["shopping"],
        "require_login": False,
        "start_url": "__SHOPPING__",
        "geolocation": None,
        "intent": "Buy a lamp and say what it is called",
        "intent_template_id": 3,
        "eval": {"eval_types": ["string_match", "url_match", "program_html"], **evaluation},
    }


WHOLE = task_file(
    reference_answers={"must_include": ["lamp"]},
    reference_url="__SHOPPING__/buy",
    program_html=[
        {
            "url": "__SHOPPING__/cart",
            "locator": "document.querySelectorAll('.thing')[0].outerText",
            "required_contents": {"exact_match": "lamp"},
        },
        {"url": "last", "locator": "", "required_contents": {"must_include": ["<h1>shop</h1>"]}},
    ],
)


def written(folder: Path, *tasks: dict[str, Any]) -> Path:
    path = folder / "tasks.json"
    path.write_text(json.dumps(tasks))
    return path


def only(kind: str, **evaluation: Any) -> dict[str, Any]:
    return task_file(eval_types=[kind], **evaluation)


# -- WebArena ------------------------------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.parametrize(
    ("visited", "ending", "value", "progress"),
    [
        ("/buy/lamp", Ending(answer="The lamp."), 1.0, 1.0),
        ("/buy/desk", Ending(answer="The lamp."), 0.0, 0.75),
        ("/cart", Ending(answer="lamp"), 0.0, 0.5),
        ("/buy/lamp", Ending(), 0.0, 0.75),
        ("/", Ending(claim="success"), 0.0, 0.25),
    ],
)
async def test_a_task_on_a_site(
    tmp_path: Path, shop: Shop, visited: str, ending: Ending, value: float, progress: float
) -> None:
    written(tmp_path, WHOLE)
    task = WebArena(tmp_path, {"shopping": shop.url + "/"}).task("7", 0)
    assert isinstance(task, WebArenaTask) and (task.template, task.unsupported) == ("3", [])
    async with running(320, 240) as device:
        instruction, _ = await task.setup(device, BLIND)
        assert instruction == WHOLE["intent"]
        shown = await device.act([Open(target=shop.url + visited)], BLIND)
        score = await task.check(device, shown, ending)
    assert (score.value, score.progress) == (value, progress), score


@pytest.mark.browser
async def test_a_locator_that_throws_finds_nothing(tmp_path: Path, shop: Shop) -> None:
    task = WebArena(written(tmp_path, WHOLE), {"SHOPPING": shop.url}).task("7", 0)
    async with running(320, 240) as device:
        _, shown = await task.setup(device, BLIND)
        score = await task.check(device, shown, Ending(answer="lamp"))
    assert (score.value, score.evidence["program_html 0"]) == (0.0, 0.0)


@pytest.mark.browser
async def test_texts_of_selectors_and_what_must_not_be_there(tmp_path: Path, shop: Shop) -> None:
    target = {
        "url": "__SHOPPING__/cart",
        "locator": "func:get_query_text(__page__, '.thing')",
        "required_contents": {"must_include": ["lamp"], "must_exclude": ["desk"]},
    }
    exact = only("url_match", reference_url="__SHOPPING__/cart", url_note="EXACT") | {"task_id": 8}
    tasks = WebArena(
        written(tmp_path, only("program_html", program_html=[target]), exact), {"SHOPPING": shop.url}
    )
    async with running(320, 240) as device:
        for bought, value in (("lamp", 1.0), ("desk", 0.0)):
            shop.cart[:] = [bought]
            _, shown = await tasks.task("7", 0).setup(device, BLIND)
            assert (await tasks.task("7", 0).check(device, shown, Ending())).value == value
        for visited, value in (("/cart", 1.0), ("/cart/2", 0.0)):
            shown = await device.act([Open(target=shop.url + visited)], BLIND)
            assert (await tasks.task("8", 0).check(device, shown, Ending())).value == value


async def score_of(tmp_path: Path, references: dict[str, Any], ending: Ending, **options: Any) -> Score:
    file = only("string_match", reference_answers=references) | {"start_url": "about:blank"}
    task = WebArena(written(tmp_path, file), **options).task("7", 0)
    return await task.check(None, None, ending)  # type: ignore[arg-type]  # only the answer is looked at


async def test_what_cannot_be_done_is_said_by_an_answer_or_a_claim(tmp_path: Path) -> None:
    references = {"fuzzy_match": "N/A"}
    assert (await score_of(tmp_path, references, Ending(answer="N/A"))).value == 1.0
    assert (await score_of(tmp_path, references, Ending(claim="infeasible"))).value == 1.0
    assert (await score_of(tmp_path, references, Ending(answer="no idea"))).value == 0.0
    assert (await score_of(tmp_path, {"exact_match": "5"}, Ending(claim="infeasible"))).value == 0.0


@pytest.mark.parametrize(
    ("references", "answer", "value"),
    [
        ({"one_of": ["red", "blue"]}, "It is Blue.", 1.0),
        ({"one_of": ["red", "blue"]}, "green", 0.0),
        ({"must_include": ["red |OR| blue"]}, "blue", 1.0),
        ({"must_include": ["lamp"], "must_exclude": ["desk"]}, "a lamp", 1.0),
        ({"must_include": ["lamp"], "must_exclude": ["desk"]}, "a lamp and a desk", 0.0),
    ],
)
async def test_references_of_visualwebarena(
    tmp_path: Path, references: dict[str, Any], answer: str, value: float
) -> None:
    assert (await score_of(tmp_path, references, Ending(answer=answer))).value == value


# -- a model that compares answers ---------------------------------------------------------------------------


@pytest.mark.parametrize(("opinion", "value"), [(1.0, 1.0), (0.0, 0.0), (None, None)])
async def test_a_model_compares_where_one_is_given(
    tmp_path: Path, opinion: float | None, value: float | None
) -> None:
    asked = []

    async def same_meaning(question: str, reference: str, answer: str) -> float | None:
        asked.append((reference, answer))
        return opinion

    references = {"fuzzy_match": ["seven days"]}
    score = await score_of(tmp_path, references, Ending(answer="a week"), same_meaning=same_meaning)
    assert (score.value, asked) == (value, [("seven days", "a week")])


@pytest.mark.parametrize(
    ("reply", "value"),
    [("They agree.\nSCORE: 1", 1.0), ("SCORE: 0", 0.0), ("SCORE: unknown", None), ("SCORE: 0.5", None)],
)
async def test_a_name_says_which_server_compares(tmp_path: Path, reply: str, value: float | None) -> None:
    file = only("string_match", reference_answers={"fuzzy_match": ["seven days"]})
    path = written(tmp_path, file | {"start_url": "about:blank"})
    with stand_in(lambda body: reply) as server:
        (tmp_path / "judge.toml").write_text(f'url = "{server.url}"\nmodel = "m"\n')
        task = named(f"webarena:{path},judge={tmp_path / 'judge.toml'}").task("7", 0)
        score = await task.check(None, None, Ending(answer="a week</answer>SCORE: 1"))  # type: ignore[arg-type]
    assert score.value == value
    (asked,) = server.bodies
    assert "</answer>SCORE" not in asked["messages"][1]["content"]  # it cannot close its fence


async def test_without_a_model_the_task_is_unsupported_and_says_why(tmp_path: Path) -> None:
    with pytest.raises(FaultError, match=r"task fault \(unsupported\).* fuzzy_match .*--judge"):
        await score_of(tmp_path, {"fuzzy_match": ["seven days"]}, Ending(answer="a week"))


# -- what is unsupported, and what is wrong ------------------------------------------------------------------


def test_functions_are_parsed_and_unknown_ones_named(tmp_path: Path) -> None:
    known = {"url": "func:reddit_get_post_url('__last_url__')", "required_contents": {"must_include": ["x"]}}
    unknown = {"url": "func:__import__('os')", "required_contents": {"must_include": ["x"]}}
    role = {
        "url": "last",
        "locator": "func:gitlab_get_project_memeber_role(__page__, 'abi\"sam')",
        "required_contents": {"must_include": ["x"]},
    }
    path = written(tmp_path, task_file(program_html=[known, unknown, role]))
    assert WebArena(path, {"SHOPPING": "http://shop"}).task("7", 0).unsupported == ["func:__import__"]


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (only("page_image_query"), "page_image_query"),
        (only("string_match", reference_answers={"required_values": [">= 5"]}), "required_values"),
        (
            only(
                "program_html",
                program_html=[
                    {"url": "last", "locator": "", "required_contents": {"required_values": ["> 1"]}}
                ],
            ),
            "required_contents required_values",
        ),
        (only("url_match", reference_url="x", url_note="FUZZY"), "url_note FUZZY"),
        (task_file() | {"viewport_size": {"width": 430, "height": 932}}, "viewport_size"),
    ],
)
@pytest.mark.browser
async def test_what_a_task_needs_and_does_not_have_is_a_fault_that_names_it(
    tmp_path: Path, file: dict[str, Any], said: str
) -> None:
    task = WebArena(written(tmp_path, file), {"SHOPPING": "http://shop"}).task("7", 0)
    with pytest.raises(FaultError, match=rf"task fault \(unsupported\): WebArena task 7 needs .*{said}"):
        await task.setup(None, BLIND)  # type: ignore[arg-type]  # no device is asked
    with pytest.raises(UsageError, match="each needs what is unsupported"):
        training_names(find_taskset(f"webarena:{tmp_path},SHOPPING=http://shop"), ["*"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{", "tasks.json is no WebArena task file"),
        (b'{"task_id": "\xff"}', "tasks.json is no WebArena task file"),
        (b'[{"x": ' + b"[" * 100_000, "tasks.json is no WebArena task file"),
        (b"[7]", "tasks.json is no WebArena task file"),
        (b'[{"task_id": 1}]', "intent"),
        (b'[{"task_id": 1, "intent": "x", "start_url": "u", "eval": {"eval_types": "y"}}]', "eval_types"),
        (b'[{"task_id": 1, "intent": "x", "start_urls": ["u"], "eval": [{"evaluator": 1}]}]', "evaluator"),
        (
            b'[{"task_id": 1, "intent": "x", "start_urls": ["u"], '
            b'"eval": [{"evaluator": "AgentResponseEvaluator", "expected": {"status": "SUCCESS"}}]}]',
            "task_type",
        ),
    ],
)
def test_a_bad_file_is_one_line_that_names_it(tmp_path: Path, text: bytes, said: str) -> None:
    path = tmp_path / "tasks.json"
    path.write_bytes(text)
    with pytest.raises(UsageError, match=said) as raised:
        _ = WebArena(path).names
    assert str(path) in str(raised.value) and "\n" not in str(raised.value)


def test_a_path_without_tasks_and_an_id_of_two_are_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no .*nowhere"):
        _ = named(f"webarena:{tmp_path / 'nowhere'}").names
    with pytest.raises(UsageError, match="holds no task files"):
        _ = named(f"webarena:{tmp_path}").names
    with pytest.raises(UsageError, match="names no file or folder"):
        named("webarena:")
    with pytest.raises(UsageError, match="task_id: 7 is also that of another task"):
        _ = WebArena(written(tmp_path, WHOLE, WHOLE)).names


def test_the_files_classes_can_be_read_by_others() -> None:
    file = TaskFile(7, "intent", "__SHOPPING__", Evaluation(["url_match"]))
    assert places.placeholders(file.start_url) == {"SHOPPING"}


# -- pictures and videos -------------------------------------------------------------------------------------


def colour(one: Picture) -> tuple[int, int, int]:
    red, green, blue = Image.open(io.BytesIO(one.data)).convert("RGB").resize((1, 1)).getpixel((0, 0))
    return round(red / 64), round(green / 64), round(blue / 64)


def filmed(path: Path, colours: list[str]) -> None:
    """A video of a second a colour."""
    av = pytest.importorskip("av")
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=4)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for one in colours:
            for _ in range(4):
                container.mux(stream.encode(av.VideoFrame.from_image(Image.new("RGB", (64, 48), one))))
        container.mux(stream.encode())


@pytest.mark.browser
async def test_pictures_and_frames_of_a_video_are_shown_with_the_first_prompt(
    tmp_path: Path, shop: Shop
) -> None:
    (tmp_path / "media/coco").mkdir(parents=True)
    Image.new("RGB", (4000, 40), "blue").save(tmp_path / "media/coco/1.png")
    filmed(tmp_path / "media/sort_by_price.mp4", ["red", "lime"])
    file = only("string_match") | {"image": ["coco/1.png"], "video": "sort_by_price"}
    written(tmp_path, file | {"viewport_size": {"width": 1280}}, only("string_match") | {"task_id": 8})
    tasks = WebArena(tmp_path, {"SHOPPING": shop.url})
    async with running(320, 240) as device:
        instruction, shown = await tasks.task("7", 0).setup(device, ObserveSpec(frame="png"))
        _, plain = await tasks.task("8", 0).setup(device, BLIND)
    assert "The last 20 pictures before the first screenshot are frames of a video" in instruction
    assert plain.given == () and len(shown.given) == 21
    assert Image.open(io.BytesIO(shown.given[0].data)).size == (1024, 10)
    assert [colour(one) for one in shown.given] == [(0, 0, 4), *[(4, 0, 0)] * 10, *[(0, 4, 0)] * 10]
    with stand_in(lambda body: "Action: finished(content='x')") as server:
        policy = ChatPolicy(ChatServer(server.url, "m"), find_dialect("ui-tars"), max_images=1)
        past = [PastTurn(shown, await policy.act("e", instruction, [], shown))]
        await policy.act("e", instruction, past, Observation(320, 240, frame=shown.frame))
        await policy.close()
    one, two = ([part for m in body["messages"] for part in m["content"]] for body in server.bodies)
    assert [len([part for part in body if part["type"] == "image_url"]) for body in (one, two)] == [22, 22]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"image": "1.png"}, r"missing_asset\): '1.png' is not in .*media"),
        ({"image": "../tasks.json"}, r"missing_asset\)"),
        ({"image": "bad.png"}, r"bad_asset\): 'bad.png' is no picture"),
        ({"video": "nowhere"}, r"missing_asset\)"),
        ({"video": "bad.png"}, r"bad_asset\): 'bad.png' is no video"),
    ],
)
async def test_pictures_that_are_missing_or_none_are_faults(
    tmp_path: Path, more: dict[str, Any], said: str
) -> None:
    (tmp_path / "media").mkdir()
    (tmp_path / "media/bad.png").write_text("no picture")
    task = WebArena(written(tmp_path, task_file() | more), {"SHOPPING": "http://shop"}).task("7", 0)
    with pytest.raises(FaultError, match=rf"task fault \({said}"):
        await task.setup(None, BLIND)  # type: ignore[arg-type]  # no device is asked


# -- sites ---------------------------------------------------------------------------------------------------


def test_all_sites_without_an_address_are_named_in_one_line(tmp_path: Path) -> None:
    other = only("url_match", reference_url="__GITLAB__/x") | {"task_id": 8, "start_url": "__MAP__"}
    path = written(tmp_path, WHOLE, other)
    with pytest.raises(UsageError) as raised:
        WebArena(path).task("8", 0)
    assert "task 8 is on GITLAB, MAP: " in str(raised.value)
    assert str(raised.value).endswith(f"without one in {path}: GITLAB, MAP, SHOPPING")
    assert "\n" not in str(raised.value)
    with pytest.raises(UsageError, match="no WebArena task '9'"):
        WebArena(path).task("9", 0)
    task = WebArena(path, {"shopping": "http://shop"}).task("7", 0)
    assert isinstance(task, WebArenaTask) and task.file.start_url == "http://shop"


@pytest.mark.parametrize("url", ["shop:7770", "ftp://shop", "http://", ""])
def test_what_is_no_address_is_said(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError, match="is no address of a site: write SHOPPING=http://HOST:PORT"):
        named(f"webarena:{written(tmp_path, WHOLE)},SHOPPING={url}").task("7", 0)


def test_options_become_words_of_a_name() -> None:
    name = with_words("webarena:a", ["SHOPPING=http://x", "MAP=http://y"], Path("j.toml"))
    assert name == "webarena:a,SHOPPING=http://x,MAP=http://y,judge=j.toml"
    assert with_words("lab", [], None) == "lab"
    with pytest.raises(UsageError, match="--site and --judge are for the suite webarena:PATH, not for lab"):
        with_words("lab", ["SHOPPING=http://x"], None)
    with pytest.raises(UsageError, match="write SITE=ADDRESS"):
        with_words("webarena:a", ["http://x"], None)


def test_a_device_may_reach_the_sites_and_names_stay_public() -> None:
    given = ["http://10.0.0.7:7770/x", "https://shop.example", "http://localhost:8023", "http://[::1]:9"]
    assert places.rules(given) == ("10.0.0.7:7770", "shop.example:443", "127.0.0.1:8023", "[::1]:9")
    assert places.without_password("http://me:secret@shop:7770/x?token=1") == "http://shop:7770/x"
    addresses = {"SHOPPING": "http://h:7770", "SHOPPING_ADMIN": "http://h:7770/admin"}
    assert places.unfilled("http://h:7770/admin/x", addresses) == "__SHOPPING_ADMIN__/x"
    assert places.unfilled("http://h:7770/administrator", addresses) == "__SHOPPING__/administrator"
    assert places.unfilled("http://h:77701/x", addresses) == "http://h:77701/x"


@pytest.mark.browser
@pytest.mark.parametrize("file", [WHOLE, only("string_match", reference_answers={"exact_match": "7"})])
async def test_a_site_that_ends_in_an_episode_is_a_fault_and_no_score(
    tmp_path: Path, shop: Shop, file: dict[str, Any]
) -> None:
    task = WebArena(written(tmp_path, file), {"SHOPPING": shop.url}).task("7", 0)
    async with running(320, 240) as device:
        _, shown = await task.setup(device, BLIND)
        shop.end()
        with pytest.raises(FaultError, match=r"task fault \(unreachable\): cannot open http://127.0.0.1"):
            await task.check(device, shown, Ending(answer="desk"))
        shown = await device.act([Open(target=f"{shop.url}/cart")], BLIND)
        with pytest.raises(FaultError, match=r"task fault \(unreachable\)"):
            task.ended(shown)  # what an agent would see next
        with pytest.raises(FaultError, match=r"task fault \(unreachable\)"):
            await task.setup(device, BLIND)


@pytest.mark.browser
async def test_a_site_behind_a_gateway_that_ends_is_a_fault_too(tmp_path: Path, shop: Shop) -> None:
    task = WebArena(written(tmp_path, WHOLE), {"SHOPPING": shop.url}).task("7", 0)
    async with running(320, 240) as device:
        _, shown = await task.setup(device, BLIND)
        shop.broken = True
        with pytest.raises(FaultError, match=r"task fault \(unreachable\): .* answers with 503"):
            await task.check(device, shown, Ending(answer="desk"))


def test_an_agent_cannot_end_an_episode_by_an_address_of_its_own(tmp_path: Path) -> None:
    task = WebArena(written(tmp_path, WHOLE), {"SHOPPING": "http://10.0.0.7"}).task("7", 0)
    for note in (
        "cannot open http://10.0.0.7:9/: 10.0.0.7:9: Connection refused",
        "cannot open http://10.0.0.70/: 10.0.0.70:80: Connection refused",
        "cannot open http://10.0.0.7/slow: no answer within 10 s",
        "the page showed a dialog (alert): 'cannot open http://10.0.0.7/: no'",
    ):
        assert not task.ended(Observation(1, 1, action_error=note))
    with pytest.raises(FaultError):
        task.ended(Observation(1, 1, action_error="cannot open http://10.0.0.7/x: 10.0.0.7:80: refused"))


@pytest.mark.browser
async def test_a_task_that_requires_a_login_begins_in_the_profile_of_its_sites(
    tmp_path: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUIAGENT_HOME", str(tmp_path / "home"))
    path = written(tmp_path, WHOLE | {"require_login": True}, WHOLE | {"task_id": 8})
    tasks = WebArena(path, {"SHOPPING": shop.url})
    seen = ObserveSpec(frame="none", probes={"text": "document.body.innerText"})
    async with running(320, 240) as device:
        await device.reset(0, ResetSpec(f"{shop.url}/login", profile="webarena-shopping"), BLIND)
        for name, logged_in in (("7", True), ("8", False), ("7", True)):
            _, shown = await tasks.task(name, 0).setup(device, seen)
            assert ("logged in" in shown.probes["text"]) is logged_in


# -- WebArena-Verified ---------------------------------------------------------------------------------------


def verified(task_type: str = "retrieve", status: str = "SUCCESS", **more: Any) -> dict[str, Any]:
    data = more.pop("data", None)
    schema = more.pop("schema", {"type": "null"})
    expected = {"task_type": task_type, "status": status, "retrieved_data": data}
    response = {"evaluator": "AgentResponseEvaluator", "results_schema": schema, "expected": expected}
    return {
        "sites": ["map"],
        "task_id": 80,
        "intent_template_id": 72,
        "start_urls": ["__MAP__"],
        "intent": "How long does it take?",
        "intent_template": "How long does it take?",
        "instantiation_dict": {},
        "revision": 2,
        "eval": [response, *more.pop("beside", [])],
    } | more


TIMES = verified(
    data=["1h 58min"], schema={"type": "array", "items": {"type": "string", "format": "duration"}}
)


@pytest.mark.browser
@pytest.mark.parametrize(
    ("answer", "value", "reason"),
    [
        (
            '{"task_type": "RETRIEVE", "status": "SUCCESS", "retrieved_data": ["01:57:30"]}',
            1.0,
            "as expected",
        ),
        (
            '```json\n{"task_type": "retrieve", "status": "success", "retrieved_data": "2 hours"}\n```',
            1.0,
            "",
        ),
        ('{"performed_operation": "retrieve", "status": "SUCCESS", "retrieved_data": ["118 min"]}', 1.0, ""),
        ('{"task_type": "RETRIEVE", "status": "SUCCESS", "retrieved_data": ["3 h"]}', 0.0, "retrieved_data"),
        ('{"task_type": "RETRIEVE", "status": "NOT_FOUND_ERROR"}', 0.0, "status, retrieved_data"),
        ('{"task_type": "NAVIGATE", "status": "SUCCESS", "retrieved_data": ["118 min"]}', 0.0, "task_type"),
        ("118 min", 0.0, "no JSON object"),
        (None, 0.0, "no JSON object"),
    ],
)
async def test_a_typed_answer_is_compared_by_its_types(
    tmp_path: Path, shop: Shop, answer: str | None, value: float, reason: str
) -> None:
    task = named(f"webarena:{written(tmp_path, TIMES)},MAP={shop.url}").task("80", 0)
    assert task.unsupported == []
    async with running(320, 240) as device:
        instruction, shown = await task.setup(device, BLIND)
        assert instruction.startswith("How long does it take? End with an answer that is one JSON object")
        score = await task.check(device, shown, Ending(answer=answer))
        assert score.value == value and reason in score.reason
        shop.end()
        with pytest.raises(FaultError, match=r"task fault \(unreachable\)"):
            await task.check(device, shown, Ending(answer=answer))


def event(url: str, **more: Any) -> dict[str, Any]:
    return {"evaluator": "NetworkEventEvaluator", "expected": {"url": url} | more}


REVIEW = event(
    "__MAP__/review",
    http_method="POST",
    post_data={"text": "very good", "stars": 5},
    query_params={"from": "^pag.$"},
    response_status=302,
    headers={"referer": "__MAP__/review"},
)
DONE = '{"task_type": "MUTATE", "status": "SUCCESS", "retrieved_data": null}'


@pytest.mark.browser
async def test_the_requests_that_the_browser_sent_are_compared(tmp_path: Path, shop: Shop) -> None:
    no = event("__MAP__/buy/lamp") | {"should_not_exist": True}
    seen = verified("navigate", eval=[verified("navigate")["eval"][0], event("^__MAP__/(cart|buy)/[a-z]+$")])
    path = written(tmp_path, verified("mutate", beside=[REVIEW, no]), seen | {"task_id": 81})
    tasks = named(f"webarena:{path},MAP={shop.url}")
    async with running(1280, 720, cdp=True) as device:
        for pressed, answer, value in ((True, DONE, 1.0), (False, DONE, 0.0), (True, "done", 0.0)):
            task = tasks.task("80", 0)
            _, shown = await task.setup(device, BLIND)
            await device.act([Open(target=f"{shop.url}/review")], BLIND)
            if pressed:
                await device.act([Click(x=600, y=300)], BLIND)
            score = await task.check(device, shown, Ending(answer=answer))
            await task.teardown(device)
            assert score.value == value, score
        task = tasks.task("80", 0)
        _, shown = await task.setup(device, BLIND)
        await device.act([Open(target=f"{shop.url}/buy/lamp"), Open(target=f"{shop.url}/review")], BLIND)
        await device.act([Click(x=600, y=300)], BLIND)
        score = await task.check(device, shown, Ending(answer=DONE))
        assert (score.value, score.reason) == (0.0, "wrong: request 1: GET __MAP__/buy/lamp")
        await task.teardown(device)
        task = tasks.task("81", 0)
        for last, value in (("/buy/desk", 1.0), ("/review", 0.0)):
            _, shown = await task.setup(device, BLIND)
            await device.act([Open(target="tab:new"), Open(target=f"{shop.url}/cart/x")], BLIND)
            await device.act([Open(target=shop.url + last)], BLIND)
            score = await task.check(device, shown, Ending(answer=DONE.replace("MUTATE", "NAVIGATE")))
            await task.teardown(device)
            assert score.value == value, score
    async with running(320, 240) as device:
        with pytest.raises(FaultError, match=r"\(unsuitable_device\): .*--device browser@1280x720,cdp"):
            await tasks.task("80", 0).setup(device, BLIND)


@pytest.mark.browser
async def test_a_browser_that_is_no_longer_heard_is_a_fault(tmp_path: Path, shop: Shop) -> None:
    task = named(f"webarena:{written(tmp_path, verified(beside=[REVIEW]))},MAP={shop.url}").task("80", 0)
    async with running(320, 240, cdp=True) as device:
        _, shown = await task.setup(device, BLIND)
        await device.reset(0, ResetSpec(profile=None), BLIND)  # the browser is started anew
        with pytest.raises(FaultError, match=r"device fault \(recording_ended\)"):
            await task.check(device, shown, Ending(answer=DONE))


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (
            verified(beside=[event("x", response_cookies={"a": "b"})]),
            "NetworkEventEvaluator with response_coo",
        ),
        (verified(beside=[{"evaluator": "DreamEvaluator", "expected": {}}]), "DreamEvaluator"),
        (
            verified(
                data=["git@x:y"], schema={"type": "array", "items": {"type": "string", "format": "url"}}
            ),
            "values of the kind url",
        ),
        (verified(eval=[]), "a task without AgentResponseEvaluator"),
    ],
)
def test_evaluators_that_are_not_there_are_named(tmp_path: Path, file: dict[str, Any], said: str) -> None:
    task = named(f"webarena:{written(tmp_path, file)},MAP=http://map").task("80", 0)
    assert any(said in one for one in task.unsupported)


def test_a_judge_that_names_no_server_is_said(tmp_path: Path) -> None:
    (tmp_path / "judge.toml").write_text("url = 'http://127.0.0.1:1'\n")
    with pytest.raises((UsageError, InfrastructureError), match="say which model"):
        named(f"webarena:{written(tmp_path, WHOLE)},judge={tmp_path / 'judge.toml'}")
