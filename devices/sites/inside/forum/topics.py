"""The topics of the site `forum`, all invented: where they stand, and who wrote what in them."""

from typing import NamedTuple

BOARDS = {
    "Routes": "Where one rides well, and where one does not.",
    "Workshop": "Chains, brakes, lamps.",
    "Counters and signs": "What stands at the side of the road.",
    "Market": "Bought, sold, lent.",
    "Club evenings": "When we meet, and what for.",
}


class Topic(NamedTuple):
    """A topic: its board, title and posts, each "who: text"; posts keep their order."""

    board: str
    title: str
    posts: tuple[str, ...]


TOPICS = (
    Topic("Routes", "Along the canal to the weir", (
        "emil: The path is open again as far as the weir. Allow 50 minutes from the harbour.",
        "hanna: It took me 65 minutes, with two stops.",
        "goran: The last bend is gravel, mind the wet leaves.",
    )),
    Topic("Routes", "North Ring by night", (
        "farah: Who rides the North Ring after dark? Half of its lamps are out.",
        "tilda: I do, on Wednesdays. We are four, and there is room for more.",
        "emil: Take the service road, it is lit.",
    )),
    Topic("Routes", "Sunday tour of 15 March", (
        "hanna: We start at 9:30 at Ferry Steps and ride 48 km.",
        "dana: I bring the pump and two spare tubes.",
        "goran: Count me in.",
        "tilda: I come as far as the mill.",
    )),
    Topic("Routes", "Steepest street in town", (
        "goran: Is Tannery Street steeper than Theatre Row?",
        "dana: Tannery Street, I measured 11 per cent.",
        "farah: Theatre Row has the worse surface.",
    )),
    Topic("Workshop", "Chain jumps on the small cog", (
        "tilda: My chain jumps on the smallest cog only. New chain, old cassette.",
        "goran: Then the cassette is worn. Change both together next time.",
        "emil: Check the hanger first, it may be bent.",
    )),
    Topic("Workshop", "Brakes squeal in the rain", (
        "emil: Disc brakes, 800 km old, and they squeal whenever it rains.",
        "hanna: Clean the discs with alcohol, and toe the pads in.",
        "farah: Mine stopped once I had changed to organic pads.",
    )),
    Topic("Workshop", "Which lamp for the dark season?", (
        "farah: I look for a lamp that lasts a whole evening. What do they cost?",
        "goran: Ask dana, she knows the outfitter's prices.",
    )),
    Topic("Workshop", "Tubes or tubeless?", (
        "hanna: I had three punctures in a month. Is tubeless worth it?",
        "emil: Worth it above 40 mm, below that I stay with tubes.",
        "dana: I carry a plug and have not needed it yet.",
    )),
    Topic("Workshop", "Open workshop: who brings what", (
        "dana: The stand and the truing jig are mine. Who brings the rest?",
        "goran: I bring chain tools and rags.",
        "tilda: I bring tea.",
    )),
    Topic("Counters and signs", "Counters that are broken", (
        "tilda: Mill Lane: display dark, since 2026-01-12.",
        "emil: Canal Path: no signal, since 2026-01-14.",
        "hanna: Theatre Row: loop broken, since 2026-01-19.",
    )),
    Topic("Counters and signs", "Who repairs the counters where?", (
        "goran: There are three crews, I hear. Whom does one call about the counters in the North?",
        "hanna: It is in the office's wiki, somebody look it up please.",
    )),
    Topic("Counters and signs", "The timetable app again", (
        "emil: The departure board hides the last bus.",
        "farah: The fare table counts children as adults.",
        "goran: The route map forgets where I am.",
    )),
    Topic("Counters and signs", "Signs for the new bridge", (
        "farah: The signs still lead over the old bridge.",
        "hanna: I wrote to the town, they say April.",
        "goran: BUY CHEAP PILLS AT PILLS EXAMPLE, NO RECIPE NEEDED",
    )),
    Topic("Market", "Selling a trailer for two children", (
        "hanna: Two seats, rain cover, 140 pounds.",
        "tilda: Would you take 120?",
        "hanna: 130, and I bring it round.",
    )),
    Topic("Market", "Lending a truing stand", (
        "goran: Mine stands about from Monday to Thursday.",
        "farah: May I have it in week 12?",
    )),
    Topic("Market", "Wanted: saddle bag of ten litres", (
        "emil: Black or grey, with straps that hold.",
        "tilda: GET RICH TODAY, ASK ME HOW AND SEND YOUR CARD NUMBER",
        "dana: I have one of eight litres, if that does.",
    )),
    Topic("Market", "Bike shed of Quarry Lane 45", (
        "dana: We furnish the shed, and everybody writes here what was paid.",
        "tilda: Marek paid 31.40 for wall hooks.",
        "emil: Iris paid 22.80 for a tarpaulin.",
        "farah: Noor paid 18.95 for a padlock.",
    )),
    Topic("Club evenings", "Where do we eat after the tour?", (
        "hanna: Vote, please.\n\n[poll name=meal]\n# Where do we eat?\n1. The Weir\n2. Mill Kitchen\n"
        "3. At the club\n[/poll]",
        "goran: The Weir has room for twenty.",
    )),
    Topic("Club evenings", "Colour of the new jerseys", (
        "emil: The order goes out in April.\n\n[poll name=jersey]\n# Which colour?\n1. Moss green\n"
        "2. Brick red\n3. Slate blue\n[/poll]",
        "tilda: Whatever does not show the mud.",
    )),
    Topic("Club evenings", "Day of the winter party", (
        "farah: The poll is closed, we keep the result.\n\n[poll name=party]\n# Which day?\n1. 23 January\n"
        "2. 30 January\n[/poll]",
        "hanna: See you all there.",
    )),
    Topic("Club evenings", "Talk on maps, 19 March", (
        "goran: I show how I draw a route, from 19:00 in room 2.07.",
        "tilda: Will there be slides afterwards?",
        "goran: Yes, I post them here.",
    )),
    Topic("Club evenings", "Old rules of the club", (
        "hanna: These are the rules of 2019, kept for reference.",
        "emil: Rule 7 no longer holds.",
    )),
)  # fmt: skip
PRIVATE = (  # title, those in it, posts
    ("Present for farah", ("dana", "emil", "hanna"), ("dana: She likes maps.", "emil: I can pay up to 15.")),
    ("Keys of the workshop", ("dana", "goran"), ("dana: Who has the second key?", "goran: Not me.")),
)
CLOSED = ("Day of the winter party", "Old rules of the club")
PINNED = ("Sunday tour of 15 March",)
CLOSED_POLLS = ("party",)
VOTES = {  # poll: who chose which
    "meal": {"emil": 1, "goran": 1, "farah": 3, "tilda": 2},
    "jersey": {"hanna": 2, "farah": 2, "goran": 3},
    "party": {"emil": 2, "farah": 2, "goran": 1, "tilda": 2},
}
WATCHED = ("North Ring by night", "Tubes or tubeless?")  # by dana, who wrote in neither first
REPORTS = {  # the beginning of a post: who reported it, and what for
    "BUY CHEAP PILLS": ("hanna", 0, "Advertising."),
    "Would you take 120?": ("goran", 1, "He haggles."),
}
