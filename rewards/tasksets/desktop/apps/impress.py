"""Tasks in LibreOffice Impress."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from rewards.tasksets.desktop.files import Finish, slides
from rewards.tasksets.desktop.office import IDLE, document, same_slides
from rewards.tasksets.desktop.scenario import (
    HOME,
    Play,
    Scenario,
    Template,
    both,
    keys,
    ruled,
    typed,
)
from rewards.tasksets.desktop.words import PLACES

_DECK = f"{HOME}/Desktop/talk.pptx"
_FILE = {"type": "vm_file", "path": _DECK, "dest": "talk.pptx"}
Titles = Sequence[str]


def _same(gold: str) -> dict[str, Any]:
    return same_slides(_DECK, gold)


def _deck(
    instruction: str,
    before: Titles | bytes,
    gold: Titles | bytes,
    moves: Play,
    misses: Mapping[str, Titles | bytes],
    check: Callable[[str], Mapping[str, Any]] = _same,
    *,
    is_open: bool = False,
) -> Scenario:
    """A task on talk.pptx; a list of titles is a presentation of slides with nothing else on them."""
    return document(
        f"{instruction} Save the presentation in its format.",
        _DECK,
        _slides(before),
        _slides(gold),
        check,
        {miss: _slides(one) for miss, one in misses.items()},
        moves,
        is_open=is_open,
    )


def _slides(one: Titles | bytes) -> bytes:
    return one if isinstance(one, bytes) else slides(one)


def _slide(number: int) -> Play:
    """Go to a slide, counted from 0."""
    return [*[keys("PageDown")] * number, IDLE]


def _titled(text: str) -> Play:
    """Type a title in place of the slide's."""
    return [
        keys("Tab"),
        keys("F2"),
        IDLE,
        keys("Control+a"),
        typed(text),
        keys("Escape"),
        keys("Escape"),
        IDLE,
    ]


def _each(act: Callable[[int, Any], None]) -> Finish:
    """Do something to every slide of a deck, which is given with its number."""

    def finish(deck: Any) -> None:
        for number, slide in enumerate(deck.slides):
            act(number, slide)

    return finish


def _retitle(random: Random) -> Scenario:
    titles, slide = random.sample(PLACES, 4), random.randrange(3)
    new = f"{titles[slide]} in winter"
    gold = [new if i == slide else title for i, title in enumerate(titles)]
    return _deck(
        f'Change the title of slide {slide + 1} of the open presentation to "{new}".',
        titles,
        gold,
        [*_slide(slide), *_titled(new)],
        {"another slide": [new if i == slide + 1 else t for i, t in enumerate(titles)], "all": [new] * 4},
        is_open=True,
    )


def _last_slide(random: Random) -> Scenario:
    titles = random.sample(PLACES, 4)
    return _deck(
        "Delete the last slide of the open presentation.",
        titles,
        titles[:-1],
        [],
        {"the first": titles[1:], "two": titles[:-2]},
        is_open=True,
    )


def _more(random: Random) -> Scenario:
    titles = random.sample(PLACES, 4)
    *kept, new = titles
    return _deck(
        f'Add a slide with the title "{new}" at the end of ~/Desktop/talk.pptx, laid out as the others are.',
        kept,
        titles,
        [*_slide(2), keys("Control+m"), IDLE, *_titled(new)],
        {"first": [new, *kept], "before the last": [*kept[:-1], new, kept[-1]], "untitled": [*kept, ""]},
    )


def _swapped(random: Random) -> Scenario:
    titles = random.sample(PLACES, 4)
    first, *rest = titles
    return _deck(
        f'The talk ~/Desktop/talk.pptx shall end with the slide "{first}", which is its first one now. The '
        "others keep their order.",
        titles,
        [*rest, first],
        [],
        {"only one further": [rest[0], first, *rest[1:]], "twice": [*titles, first], "lost": rest},
    )


def _renumbered(random: Random) -> Scenario:
    titles = random.sample(PLACES, 4)
    gold = [f"{number}. {title}" for number, title in enumerate(titles, 1)]
    moves = [step for number, title in enumerate(gold) for step in (*_slide(min(number, 1)), *_titled(title))]
    return _deck(
        'Number the titles of ~/Desktop/talk.pptx: "1. " before the first one, "2. " before the second, and '
        "so on.",
        titles,
        gold,
        moves,
        {
            "one left": [*gold[:-1], titles[-1]],
            "from zero": [f"{number}. {title}" for number, title in enumerate(titles)],
            "behind": [f"{title} {number}." for number, title in enumerate(titles, 1)],
        },
    )


def _noted(random: Random) -> Scenario:
    titles, slide = random.sample(PLACES, 4), random.randrange(4)
    note = f"Say how far {titles[slide]} is."

    def with_note(*numbers: int, text: str = note) -> bytes:
        def write(number: int, one: Any) -> None:
            if number in numbers:
                one.notes_slide.notes_text_frame.text = text

        return slides(titles, _each(write))

    return _deck(
        f'Write "{note}" into the notes of slide {slide + 1} of ~/Desktop/talk.pptx, for the speaker.',
        titles,
        with_note(slide),
        [],
        {
            "another slide": with_note((slide + 1) % 4),
            "all slides": with_note(*range(4)),
            "as a title": [note if number == slide else title for number, title in enumerate(titles)],
        },
    )


def _background(random: Random) -> Scenario:
    titles = random.sample(PLACES, 3)
    colours = {"blue": (0, 0, 255), "green": (0, 128, 0), "yellow": (255, 255, 0)}
    name = random.choice(sorted(colours))
    other = next(one for one in colours.values() if one != colours[name])

    def filled(rgb: tuple[int, int, int], *numbers: int) -> bytes:
        from pptx.dml.color import RGBColor

        def fill(number: int, one: Any) -> None:
            if number in numbers:
                one.background.fill.solid()
                one.background.fill.fore_color.rgb = RGBColor(*rgb)  # type: ignore[no-untyped-call]

        return slides(titles, _each(fill))

    code = "".join(f"{channel:02X}" for channel in colours[name])
    return _deck(
        f"Give all slides of ~/Desktop/talk.pptx a plain {name} background (#{code}).",
        titles,
        filled(colours[name], 0, 1, 2),
        [],
        {"one left": filled(colours[name], 0, 1), "another colour": filled(other, 0, 1, 2)},
        lambda gold: both(
            ruled("evaluate_presentation_fill_to_rgb_distance", _FILE, rgb=list(colours[name])), _same(gold)
        ),
    )


def _upright(random: Random) -> Scenario:
    titles = random.sample(PLACES, 3)

    def turned(titles: Titles, height: float = 4 / 3) -> bytes:
        def finish(deck: Any) -> None:
            deck.slide_height = int(deck.slide_width * height)

        return slides(titles, finish)

    return _deck(
        "~/Desktop/talk.pptx is going to be shown on an upright screen: make its slides higher than they are "
        "wide.",
        titles,
        turned(titles),
        [],
        {"square": turned(titles, 1), "a slide lost": turned(titles[:-1])},
        lambda gold: both(
            {"func": "check_slide_orientation_Portrait", "result": _FILE},
            _same(gold),
        ),
    )


_A = ("libreoffice_impress",)
TEMPLATES = (
    Template("impress-change-title", _A, _retitle, screen=True),
    Template("impress-delete-last", _A, _last_slide),
    Template("impress-add-slide", _A, _more, screen=True),
    Template("impress-first-to-end", _A, _swapped),
    Template("impress-number-titles", _A, _renumbered, screen=True),
    Template("impress-note", _A, _noted),
    Template("impress-background", _A, _background),
    Template("impress-upright", _A, _upright),
)
