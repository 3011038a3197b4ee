"""Drive a page by what it says: first by hand, then with an agent, whose policy is any `act` and `forget`."""

from collections.abc import Sequence

import guiagent
from guiagent import Click, Done, Limits, Observation, ObserveSpec, SyncAgent
from guiagent.actions import ACTION
from guiagent.nodes import centre, matching
from guiagent.protocols import Turn
from guiagent.types import PolicyOutput

PAGE = """data:text/html,<title>shop</title><label>Your name <input id=who></label>
<button onclick="done.textContent = 'Thank you, ' + who.value">Buy</button>
<button onclick="who.value = ''; this.remove()">Forget me</button> <p id=done></p>"""


class ClicksWhatItIsTold:
    """A policy that clicks on every button the instruction names; a model would look at the picture."""

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        buttons = matching(observation.tree or [], role="button")
        named = [button for button in buttons if button.name.casefold() in instruction.casefold()]
        if not named:
            return PolicyOutput("nothing is left to click", [ACTION.dump_python(Done())])
        x, y = centre(named[0].box)
        return PolicyOutput(f"I click on {named[0].name}", [ACTION.dump_python(Click(x=x, y=y))])

    def forget(self, episode: str) -> None:
        pass


with guiagent.connect() as farm, farm.lease("browser", needs=["a11y"]) as device:
    device.open(PAGE)
    device.type_into("your name", "Ada")
    device.click_on("buy")
    device.wait_for("Thank you", timeout_s=5)
    print(device.text())

    agent = SyncAgent(ClicksWhatItIsTold(), device, limits=Limits(steps=5), spec=ObserveSpec(tree=True))
    run = agent.run("Please forget me")
    for step in run:
        print(step.index, step.output.text)
    print("the run ended:", run.stop)
