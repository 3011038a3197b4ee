"""Tasks in Recipes."""

import random

from rewards.checks.android import Row
from rewards.checks.android_tables import RECIPES
from rewards.tasksets.phone.facts import Added, Changed, Removed
from rewards.tasksets.phone.template import Scenario, Template

_APP = ("org.guiagent.recipes",)
_DISHES = {
    "Barley stew": ["barley", "leek", "celery"],
    "Cheese omelette": ["eggs", "cheese"],
    "Corn chowder": ["corn", "potatoes", "cream"],
    "Herb bread": ["flour", "yeast", "rosemary"],
    "Pear tart": ["pears", "butter", "flour"],
    "Pumpkin gnocchi": ["pumpkin", "flour", "sage"],
    "Rice pudding": ["rice", "milk", "vanilla"],
    "Spinach pie": ["spinach", "feta", "pastry"],
}
_TIMES = ("10 mins", "20 mins", "30 mins", "45 mins", "1 hrs")


def recipe(title: str, servings: str, minutes: str) -> Row:
    lines = "\n".join(_DISHES[title])
    return {
        "title": title,
        "servings": servings,
        "preparationTime": minutes,
        "ingredients": lines,
        "favorite": 0,
    }


def recipes(rng: random.Random) -> list[Row]:
    """Five recipes, all of which take different times."""
    titles, times = rng.sample(sorted(_DISHES), 5), rng.sample(_TIMES, 5)
    return [
        recipe(title, f"{rng.choice((2, 4, 6))} servings", time)
        for title, time in zip(titles, times, strict=True)
    ]


def add(rng: random.Random) -> Scenario:
    title = rng.choice(sorted(_DISHES))
    wanted: Row = {
        "title": title,
        "servings": f"{rng.choice((2, 4))} servings",
        "ingredients": "\n".join(_DISHES[title]),
    }
    told = ", ".join(_DISHES[title])
    return Scenario(
        f'Add a recipe "{title}" for {wanted["servings"]}. Ingredients, one in a line: {told}.',
        steps=11,
        start=[(RECIPES, [row for row in recipes(rng) if row["title"] != title])],
        goal=[Added(RECIPES, wanted)],
        near_misses={
            "an ingredient short": [Added(RECIPES, {**wanted, "ingredients": "\n".join(_DISHES[title][:-1])})]
        },
    )


def delete(rng: random.Random) -> Scenario:
    rows = recipes(rng)
    return Scenario(
        f'Delete the recipe "{rows[1]["title"]}".',
        steps=6,
        start=[(RECIPES, rows)],
        goal=[Removed(RECIPES, {"title": rows[1]["title"]})],
    )


def favorite(rng: random.Random) -> Scenario:
    rows = recipes(rng)
    row = rng.choice(rows)
    return Scenario(
        f"Make the recipe that takes {row['preparationTime']} a favorite.",
        steps=8,
        start=[(RECIPES, rows)],
        goal=[Changed(RECIPES, {"title": row["title"]}, {"favorite": 1})],
    )


def servings(rng: random.Random) -> Scenario:
    rows = recipes(rng)
    row = rng.choice(rows)
    where, wanted = {"title": row["title"]}, f"{rng.choice((3, 5, 8))} servings"
    return Scenario(
        f'Change the recipe "{row["title"]}" so that it says "{wanted}".',
        steps=7,
        start=[(RECIPES, rows)],
        goal=[Changed(RECIPES, where, {"servings": wanted})],
        near_misses={"in the description": [Changed(RECIPES, where, {"description": wanted})]},
    )


def ask_time(rng: random.Random) -> Scenario:
    rows = recipes(rng)
    row = rng.choice(rows)
    return Scenario(
        f'How long does "{row["title"]}" take, and for how many is it? Give the '
        f"time as the recipe does, and the servings as a number.",
        steps=4,
        start=[(RECIPES, rows)],
        answer={"time": str(row["preparationTime"]), "servings": int(str(row["servings"]).split()[0])},
    )


TEMPLATES = (
    Template("recipes-add", _APP, add),
    Template("recipes-delete", _APP, delete),
    Template("recipes-favorite", _APP, favorite),
    Template("recipes-servings", _APP, servings),
    Template("recipes-ask-time", _APP, ask_time),
)
