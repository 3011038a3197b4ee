"""Questions on the site `data`: counts, sums and places that its tables, filters and facets show."""

import random

from rewards.tasksets.web.data.forms import CREWS, place
from rewards.tasksets.web.goal import State, id_of, rows_of
from rewards.tasksets.web.template import Scenario


def ask_count(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(rows_of(state, "counter").items()))
    month = f"2025-{rng.randint(1, 12):02}"
    count = state[f"month/{id_of(key)}:{month}"]["bicycles"]
    return Scenario(
        f"How many bicycles did the counter at {row['place']} count in {month}?",
        answer={"bicycles": int(count or 0)},
    )


def ask_year(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(rows_of(state, "counter").items()))
    months = [one for name, one in rows_of(state, "month").items() if name.startswith(f"month/{id_of(key)}:")]
    return Scenario(
        f"What is the total of the counter at {row['place']} over all of 2025?",
        answer={"bicycles": sum(int(one["bicycles"] or 0) for one in months)},
    )


def ask_busiest(rng: random.Random, state: State) -> Scenario:
    month = f"2025-{rng.randint(1, 12):02}"
    key = max(
        rows_of(state, "counter"), key=lambda one: state[f"month/{id_of(one)}:{month}"]["bicycles"] or 0
    )
    return Scenario(
        f"Which counter had the most bicycles in {month}? Name its place.",
        answer={"place": str(state[key]["place"])},
    )


def ask_above(rng: random.Random, state: State) -> Scenario:
    limit = rng.choice((40_000, 50_000, 60_000))
    found = [row for row in rows_of(state, "month").values() if int(row["bicycles"] or 0) > limit]
    return Scenario(
        f"In how many rows of the table months are there more than {limit:,} bicycles?",
        answer={"rows": len(found)},
    )


def ask_open(rng: random.Random, state: State) -> Scenario:
    crew = rng.choice(CREWS)
    return Scenario(
        f"How many open repairs does crew {crew} have, and how many has it done?",
        answer={
            "open": len(rows_of(state, "repair", state="open", crew=crew)),
            "done": len(rows_of(state, "repair", state="done", crew=crew)),
        },
    )


def ask_places(rng: random.Random, state: State) -> Scenario:
    fault = rng.choice(("battery low", "loop broken", "display dark", "no signal"))
    found = {place(state, row) for row in rows_of(state, "repair", state="open", fault=fault).values()}
    return Scenario(
        f'At which places is a repair for "{fault}" open? Name each place once.',
        answer={"places": sorted(found)},
    )


def ask_oldest(rng: random.Random, state: State) -> Scenario:
    _, row = min(rows_of(state, "counter").items(), key=lambda one: str(one[1]["installed"]))
    return Scenario(
        "Where is our oldest counter, and how many lanes does it watch?",
        answer={"place": str(row["place"]), "lanes": int(row["lanes"] or 0)},
    )
