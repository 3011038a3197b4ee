"""The pages of the site `wiki`, all invented: path, title and what each version of it says."""

CREWS = {  # name: leader, telephone, van, districts
    "Heron": ("Ottilie Kranz", "4471", "OB 12 HRN", "Harbour, Centre"),
    "Badger": ("Casimir Dole", "4472", "OB 07 BDG", "Old Town"),
    "Swift": ("Maren Aspel", "4473", "OB 31 SWF", "North"),
}
TEAM = {  # who: room, what they look after
    "emil": ("2.04", "The departure board, the fare table"),
    "farah": ("2.07", "The print view"),
    "goran": ("1.11", "The stop editor, the login page"),
    "hanna": ("1.12", "The route map"),
}
SUPPLIES = {  # product of the shop: how many
    "Glim Duo": 3,
    "Morro Lantern": 6,
    "Firefly Strap": 8,
    "Roam 20": 4,
    "Ledge Pouch": 5,
    "Tarn Kettle": 2,
}
BOUGHT = {  # what was bought for the flat: who paid, how much
    "Spare keys": ("Iris", "27.80"),
    "Hall lamp": ("Marek", "41.25"),
    "Fire blanket": ("Noor", "18.60"),
    "Door mat": ("Dana", "22.15"),
}


def _table(head: str, rows: list[str]) -> str:
    dashes = " | ".join("---" for _ in head.split(" | "))
    return "\n".join([head, dashes, *rows])


_TEAM = _table(
    "Who | Room | Looks after", [f"{who} | {room} | {parts}" for who, (room, parts) in TEAM.items()]
)
_SUPPLIES = _table("Thing | To buy", [f"{thing} | {count}" for thing, count in SUPPLIES.items()])
_FLAT = _table(
    "Thing | Paid by | Price", [f"{thing} | {who} | {price}" for thing, (who, price) in BOUGHT.items()]
)

PAGES: dict[str, tuple[str, list[str]]] = {
    "": ("Office wiki", ["What is worth knowing about the office.\n\n[article_list depth:2]"]),
    "team/": ("Team", [f"Who sits where, and who looks after what.\n\n{_TEAM}"]),
    "supplies/": ("Supplies", [f"What every crew's store is to have bought for it.\n\n{_SUPPLIES}"]),
    "flat/": ("The flat", [f"What was bought for the flat in Quarry Lane.\n\n{_FLAT}"]),
    "crews/": ("Crews", ["Three crews repair the counters.\n\n[article_list depth:1]"]),
    **{
        f"crews/{name.lower()}/": (
            f"Crew {name}",
            [f"Leader: {leader}\n\nTelephone: {number}\n\nVan: {van}\n\nDistricts: {districts}"],
        )
        for name, (leader, number, van, districts) in CREWS.items()
    },
    "meetings/": ("Meetings", ["Minutes of the meetings.\n\n[article_list depth:1]"]),
    "meetings/jan-13/": ("Meeting of 13 January", ["All of us.\n\nThe boiler is mended in week 5."]),
    "meetings/jan-27/": ("Meeting of 27 January", ["All but goran.\n\nThe lift is seen to in March."]),
    "meetings/feb-10/": ("Meeting of 10 February", ["Emil and hanna.\n\nThe lease goes on to 2029."]),
    "meetings/feb-24/": ("Meeting of 24 February", ["All of us.\n\nNew chairs come in April."]),
    "handbook/": ("Handbook", ["How we do things.\n\n[article_list depth:1]"]),
    "handbook/key-box/": (
        "Key box",
        ["The keys hang behind the map.\n\nSign for every key.", "lol no keys here"],
    ),
    "handbook/holidays/": (
        "Holidays",
        ["Enter holidays four weeks ahead.", "Enter holidays four weeks ahead.\n\nTwo at most at once.",
         "everybody is always on holiday!!!"],
    ),
    "handbook/visitors/": (
        "Visitors",
        ["Fetch visitors from the gate.\n\nThey wear a badge.", "Leave visitors at the gate."],
    ),
    "handbook/first-aid/": ("First aid", ["The box is in room 1.02.\n\nHanna checks it in spring."]),
    "handbook/waste/": ("Waste", ["Paper on Mondays.", "Paper on Mondays.\n\nGlass on Thursdays."]),
    "handbook/fire-drill/": ("Fire drill", ["Leave by the yard.\n\nMeet under the chestnut."]),
    "handbook/car-park/": ("Car park", ["Places 4 to 9 are ours."]),
    "handbook/old-lift/": ("Old lift", ["It takes four people."]),
}  # fmt: skip
DELETED = ("handbook/car-park/", "handbook/old-lift/")
LOCKED = ("handbook/fire-drill/",)
