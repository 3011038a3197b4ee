"""browser-use drives a leased browser: its agent decides, the browser and what it may reach are the farm's.

$CDP is the DevTools port, as `guiagent forward browser-0 cdp` prints it; $OPENAI_BASE_URL and $OPENAI_API_KEY
are any model that speaks OpenAI's chat completions.
"""

import asyncio
import os

from browser_use import Agent, Browser, ChatOpenAI


async def main() -> None:
    agent = Agent(
        task="Press the button, then say what it is called now.",
        llm=ChatOpenAI(model=os.environ.get("OPENAI_MODEL", "gpt-5.4")),
        # headless=False and no_viewport=True: the screen keeps its size
        browser=Browser(cdp_url=f"http://{os.environ['CDP']}", headless=False, no_viewport=True),
        use_judge=False,
        use_vision=True,
    )
    history = await agent.run(max_steps=5)
    print("steps:", history.number_of_steps(), "errors:", [one for one in history.errors() if one])
    print("the agent says:", history.final_result())


asyncio.run(main())
