"""Tasks in Chromium, on pages that lie on the desktop's disk."""

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any
from urllib.parse import urlencode

from rewards.tasksets.desktop.scenario import (
    HOME,
    Play,
    Scenario,
    Template,
    keys,
    launched,
    lay,
    pause,
    placed,
    printed,
    quiet,
    ran,
    ruled,
    shell,
    typed,
    until,
    wait_for,
    window,
)
from rewards.tasksets.desktop.words import GOODS, WORDS

_PAGES = f"{HOME}/Documents"
_PROFILE = f"{HOME}/.config/google-chrome/Default"
_IDLE = quiet("chromium")
# A browser that answers DevTools, by which its tabs are read.
_BROWSER = ("google-chrome", "--remote-debugging-port=1337")
_TAB = {"type": "active_tab_info"}


def _address(name: str) -> str:
    return f"file://{_PAGES}/{name}"


def _page(title: str, body: str) -> bytes:
    return f"<!DOCTYPE html><meta charset=utf-8><title>{title}</title><h1>{title}</h1>{body}".encode()


def _shown(first: str, pages: Mapping[str, bytes], *more: str) -> list[dict[str, Any]]:
    """Set-up steps: pages lie on the disk, some of them are open, the first one in the first tab."""
    laid = [placed(name, f"{_PAGES}/{name}") for name in pages]
    return [*laid, launched(*_BROWSER, *map(_address, (first, *more))), window("Chromium")]


def _at(name: str) -> Play:
    """Go to the page of this name in the tab in front, and wait until its title is there."""
    going = [keys("Control+l"), _IDLE, typed(_address(f"{name}.html"), submit=True)]
    return [*going, wait_for(name.title()), _IDLE]


def _ready(title: str = "Chromium") -> Play:
    return [wait_for(title), _IDLE]


def _order(random: Random) -> Scenario:
    goods = random.choice(GOODS)
    boxes, day = random.randrange(2, 9), random.choice(("Monday", "Wednesday", "Friday"))
    options = "".join(f"<option>{name}</option>" for name in ("Monday", "Wednesday", "Friday"))
    form = (
        "<form action=thanks.html><p>Goods <input name=goods autofocus><p>Boxes <input name=boxes "
        f"type=number><p>Day <select name=day>{options}</select><p><label><input type=checkbox name=gift "
        "value=yes>It is a gift</label><p><button>Order</button></form>"
    )
    wanted = {"goods": goods, "boxes": boxes, "day": day, "gift": "yes"}

    def filled(*, gift: bool, day: str = day) -> Play:
        fields = [typed(goods), keys("Tab"), typed(str(boxes)), keys("Tab"), typed(day[0]), keys("Tab")]
        return [*_ready("Orders"), *fields, *([keys(" ")] if gift else []), keys("Tab")]

    sent: Play = [keys("Enter"), wait_for("Thanks"), _IDLE]
    other = "Friday" if day != "Friday" else "Monday"
    pages = {"orders.html": _page("Orders", form), "thanks.html": _page("Thanks", "We have your order.")}
    return Scenario(
        f"Order {boxes} boxes of {goods} with the form that is open in the browser. They are a gift, and "
        f"have to come on {day}.",
        _shown("orders.html", pages),
        ruled(
            "is_expected_active_tab", _TAB, type="url", url=f"{_address('thanks.html')}?{urlencode(wanted)}"
        ),
        [*filled(gift=True), *sent],
        {
            "no gift": [*filled(gift=False), *sent],
            "another day": [*filled(gift=True, day=other), *sent],
            "not sent": filled(gift=True),
        },
        pages,
    )


def _cheapest(random: Random) -> Scenario:
    shops = random.sample(WORDS, 4)
    totals = dict(zip(shops, random.sample(range(50, 70), 4), strict=True))
    best, second, *_ = sorted(totals, key=lambda shop: totals[shop])
    pages = {}
    for shop, total in totals.items():
        postage = 4 if shop == best else 25  # so that each of the others is cheaper without it
        told = f"<p>A lamp: {total - postage} euros<p>Postage: {postage} euros"
        pages[f"{shop}.html"] = _page(shop.title(), told)
    links = "".join(f"<li><a href={shop}.html>{shop.title()}</a>" for shop in shops)
    pages["shops.html"] = _page("Shops", f"<p>These shops sell the lamp:<ul>{links}</ul>")
    return Scenario(
        "The page that is open lists shops that sell a lamp. In which one is it cheapest, postage included? "
        "Leave the page of that shop open in the tab in front.",
        _shown("shops.html", pages),
        ruled("is_expected_active_tab", _TAB, type="url", url=_address(f"{best}.html")),
        [*_ready("Shops"), *_at(best)],
        {
            "without postage": [*_ready("Shops"), *_at(second)],
            "the list": _ready("Shops"),
        },
        pages,
    )


def _tabs(pages: Sequence[str]) -> dict[str, Any]:
    """An evaluator: exactly these pages are open."""
    return ruled(
        "is_expected_tabs", {"type": "open_tabs_info"}, type="url", urls=[_address(name) for name in pages]
    )


def _numbered(names: Sequence[str]) -> dict[str, bytes]:
    return {f"{name}.html": _page(name.title(), f"<p>All about {name}.") for name in names}


def _open_two(random: Random) -> Scenario:
    first, second, other = random.sample(WORDS, 3)
    pages = _numbered([first, second, other])
    links = "".join(f"<li><a href={name}>{name}</a>" for name in sorted(pages))
    pages["index.html"] = _page("Index", f"<ul>{links}</ul>")

    def beside(*names: str) -> Play:
        opening = [step for name in names for step in (keys("Control+t"), _IDLE, *_at(name))]
        return [*_ready("Index"), *opening]

    return Scenario(
        f"Open the pages {first}.html and {second}.html, which the open page links to, each in a tab of its "
        "own, and keep that page open, too.",
        _shown("index.html", pages),
        _tabs(["index.html", f"{first}.html", f"{second}.html"]),
        beside(first, second),
        {
            "one": beside(first),
            "in place of it": [*_ready("Index"), *_at(first), *beside(second)[2:]],
            "another one": beside(first, other),
        },
        pages,
    )


def _close_others(random: Random) -> Scenario:
    names = random.sample(WORDS, 5)
    kept = sorted(random.sample(range(5), 2))
    pages = _numbered(names)
    gone = [i for i in range(5) if i not in kept]

    def closing(*places: int) -> Play:
        """Close tabs, counted from 0, the last one first: the others keep their numbers."""
        steps = [
            step
            for at in sorted(places, reverse=True)
            for step in (keys(f"Control+{at + 1}"), _IDLE, keys("Control+w"))
        ]
        return [*_ready(), *steps, _IDLE]

    first, second = (names[i] for i in kept)
    return Scenario(
        f"Close all tabs of the browser but those that show {first.title()} and {second.title()}.",
        _shown(f"{names[0]}.html", pages, *(f"{name}.html" for name in names[1:])),
        _tabs([f"{first}.html", f"{second}.html"]),
        closing(*gone),
        {"one left": closing(*gone[:-1]), "one too many": closing(*gone, kept[0]), "these": closing(*kept)},
        pages,
    )  # fmt: skip


def _save(random: Random) -> Scenario:
    name, word = random.sample(WORDS, 2)
    place = f"{HOME}/Desktop/{name}.html"
    pages = {"page.html": _page("Recipe", f"<p>Take {word}.")}
    return Scenario(
        f"Save the open page on the desktop, as {name}.html.",
        _shown("page.html", pages),
        printed(f"grep -o 'Take {word}' {place}", f"Take {word}\n"),
        [
            *(*_ready("Recipe"), keys("Control+s"), wait_for("Save"), pause(1.0)),
            *(keys("Control+a"), typed(place), pause(1.0), keys("Alt+s"), until(f"test -s {place}")),
        ],
        {
            "another name": [shell(f"cp {_PAGES}/page.html {HOME}/Desktop/page.html")],
            "in Documents": [shell(f"cp {_PAGES}/page.html {_PAGES}/{name}.html")],
        },
        pages,
    )


def _bookmark(random: Random) -> Scenario:
    name = random.choice(("orders", "timetable", "recipes", "weather"))
    asking = [*_ready(name.title()), keys("Control+d"), _IDLE]
    page = f"{_PAGES}/{name}.html"
    return Scenario(
        f"Put the page {name}.html, which is open in the browser, on the bookmarks bar.",
        [placed("page.html", page), launched("google-chrome", page), window(name.title())],
        _bar([f"{name}.html"]),
        # The dialog offers other bookmarks first; a letter chooses the folder that begins with it.
        [*asking, keys("Tab"), typed("B"), keys("Enter"), pause(1.0), keys("Escape"), pause(3.0)],
        {
            "another folder": [*asking, keys("Enter"), pause(3.0)],
            "not at all": [wait_for(name.title()), pause(1.0)],
        },
        {"page.html": _page(name.title(), "")},
    )


def _bar(pages: Sequence[str]) -> dict[str, Any]:
    """An evaluator: the bookmarks bar has exactly these pages."""
    urls = [_address(name) for name in pages]
    return ruled("is_expected_bookmarks", {"type": "bookmarks"}, type="bookmark_bar_websites_urls", urls=urls)


def _unmark(random: Random) -> Scenario:
    names = random.sample(WORDS, 4)
    gone = random.choice(names)
    kept = [name for name in names if name != gone]

    def marks(*names: str) -> bytes:
        """A profile's file `Bookmarks`; Chromium itself adds what is missing."""

        def node(number: int, name: str, **more: object) -> dict[str, object]:
            return {"id": str(number), "guid": f"{number:08d}-0000-4000-a000-000000000000", "name": name,
                    "date_added": "13300000000000000", **more}  # fmt: skip

        links = [node(10 + i, n.title(), type="url", url=_address(f"{n}.html")) for i, n in enumerate(names)]
        folders = {
            "bookmark_bar": node(1, "Bookmarks bar", type="folder", children=links),
            "other": node(2, "Other bookmarks", type="folder", children=[]),
            "synced": node(3, "Mobile bookmarks", type="folder", children=[]),
        }
        return json.dumps({"roots": folders, "version": 1}).encode()

    def laid(name: str) -> Play:
        return [shell("pkill chrome; sleep 1"), lay(name, f"{_PROFILE}/Bookmarks")]

    return Scenario(
        f"Take {gone.title()} off the browser's bookmarks bar; the others stay.",
        [placed("marks", f"{_PROFILE}/Bookmarks"), launched(*_BROWSER, "about:blank"), window("Chromium")],
        _bar([f"{name}.html" for name in kept]),
        laid("gold"),
        {"another": laid("another"), "all": laid("none")},
        {
            "marks": marks(*names),
            "gold": marks(*kept),
            "another": marks(gone, *kept[1:]),
            "none": marks(),
        },
    )


_SET = (
    "import json, sys; place, key, value = sys.argv[1:]; all = at = json.load(open(place)); "
    '*way, last = key.split("."); [at := at.setdefault(name, {}) for name in way]; '
    'at[last] = json.loads(value); json.dump(all, open(place, "w"))'
)


def _set(key: str, value: object) -> Play:
    """End the browser and write a preference of its profile, named by its path such as `a.b`."""
    told = f"{_PROFILE}/Preferences {key} '{json.dumps(value)}'"
    return [shell(f"pkill chrome; sleep 1; python3 -c '{_SET}' {told}")]


_WRITTEN = f"for i in $(seq 50); do test -f {_PROFILE}/Preferences && break; sleep 0.2; done"
_FRESH = (launched("google-chrome", "about:blank"), window("Chromium"), ran(_WRITTEN))


def _do_not_track(random: Random) -> Scenario:
    return Scenario(
        'Let the browser send "Do Not Track" with its requests.',
        _FRESH,
        {
            "func": "exact_match",
            "result": {"type": "enable_do_not_track"},
            "expected": {"type": "rule", "rules": {"expected": "true"}},
        },
        _set("enable_do_not_track", True),
        {"off": _set("enable_do_not_track", False), "another setting": _set("enable_a_ping", True)},
    )


def _font_size(random: Random) -> Scenario:
    size, key = random.choice((20, 24, 28)), "webkit.webprefs.default_font_size"
    return Scenario(
        f"Text on pages is too small for me: set the browser's font size for it to {size}.",
        _FRESH,
        ruled("check_font_size", {"type": "chrome_font_size"}, type="value", value=size),
        _set(key, size),
        {"smaller": _set(key, size - 8), "of fixed width": _set(key.replace("font", "fixed_font"), size)},
    )


def _downloads(random: Random) -> Scenario:
    folder, other = random.sample(("Desktop", "Documents", "Pictures", "Music"), 2)
    key = "download.default_directory"
    return Scenario(
        f"What I download shall be kept in my folder {folder} from now on: change the browser's setting.",
        _FRESH,
        {
            "func": "check_json",
            "result": {"type": "vm_file", "path": f"{_PROFILE}/Preferences", "dest": "Preferences"},
            "expected": {
                "type": "rule",
                "rules": {"expect": [{"key": key.split("."), "method": "eq", "ref": f"{HOME}/{folder}"}]},
            },
        },
        _set(key, f"{HOME}/{folder}"),
        {
            "another folder": _set(key, f"{HOME}/{other}"),
            "saved pages": _set("savefile.default_directory", f"{HOME}/{folder}"),
        },
    )


_A = ("chrome",)
TEMPLATES = (
    Template("chromium-bookmark", _A, _bookmark, screen=True),
    Template("chromium-do-not-track", _A, _do_not_track),
    Template("chromium-order", _A, _order, screen=True),
    Template("chromium-cheapest", _A, _cheapest, screen=True),
    Template("chromium-open-two", _A, _open_two, screen=True),
    Template("chromium-close-tabs", _A, _close_others, screen=True),
    Template("chromium-save-page", _A, _save, screen=True),
    Template("chromium-remove-bookmark", _A, _unmark),
    Template("chromium-font-size", _A, _font_size),
    Template("chromium-downloads", _A, _downloads),
)
