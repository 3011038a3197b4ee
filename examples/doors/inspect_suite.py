"""inspect_ai evaluates a model on pages of a suite: inspect eval examples/doors/inspect_suite.py --model NAME

As a script it needs no model: inspect's own stand-in answers, which here looks for the page's grey button.
"""

import base64
import io
import json

import inspect_ai
from inspect_ai import Task, task
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from PIL import Image

from eval.doors.inspect_ai import suite_task


@task  # by this word its command finds the tasks of a file
def pages() -> Task:
    return suite_task("miniwob-demo", dialect="json", devices=2)


def a_click(messages, tools, choice, config) -> ModelOutput:
    """A click on the middle of the grey pixels of the last screenshot."""
    data = base64.b64decode(messages[-1].content[-1].image.partition(",")[2])
    picture = Image.open(io.BytesIO(data)).convert("L")
    grey = [
        (x, y) for y in range(52, 205) for x in range(picture.width) if 230 < picture.getpixel((x, y)) < 250
    ]
    x, y = grey[len(grey) // 2]
    output = ModelOutput.from_content("stand-in", json.dumps({"type": "click", "x": x, "y": y}))
    output.usage = ModelUsage()  # else it counts tokens, for which it downloads a table
    return output


if __name__ == "__main__":
    model = get_model("mockllm/model", custom_outputs=a_click)
    (log,) = inspect_ai.eval(
        pages(), model=model, sample_id=["click-test/*", "click-test-2/*"], display="none"
    )
    for sample in log.samples:
        score = sample.scores["check"]
        print(f"{sample.id}: {score.metadata['instruction']} {score.value} ({score.metadata['stop']})")
    print(log.status, {name: metric.value for name, metric in log.results.scores[0].metrics.items()})
