"""Tasks in Thunderbird, on mail of the local folders: nothing is sent or fetched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from rewards.tasksets.desktop.files import mail
from rewards.tasksets.desktop.scenario import (
    HOME,
    Play,
    Scenario,
    Template,
    both,
    compared,
    launched,
    lay,
    placed,
    printed,
    ran,
    ruled,
    shell,
    window,
)
from rewards.tasksets.desktop.words import GOODS, WORDS

_PROFILE = f"{HOME}/.thunderbird/main.default"
_LOCAL = f"{_PROFILE}/Mail/Local Folders"
_PREFERENCES = {"type": "vm_file", "path": f"{_PROFILE}/prefs.js", "dest": "prefs.js"}
# The profile is also that of the installation in /usr/lib/thunderbird, by the hash of this path: else
# Thunderbird, started without a profile, makes one of its own.
_INI = (
    "[Profile0]\\nName=default\\nIsRelative=1\\nPath=main.default\\nDefault=1\\n\\n"
    "[InstallFDC34C9F024745EB]\\nDefault=main.default\\nLocked=1\\n\\n"
    "[General]\\nStartWithLastProfile=1\\nVersion=2\\n"
)
_ACCOUNT: Mapping[str, object] = {
    "mail.accountmanager.accounts": "account1",
    "mail.accountmanager.localfoldersserver": "server1",
    "mail.account.account1.server": "server1",
    "mail.server.server1.type": "none",
    "mail.server.server1.hostname": "Local Folders",
    "mail.server.server1.name": "Local Folders",
    "mail.server.server1.userName": "nobody",
    "mail.server.server1.directory-rel": "[ProfD]Mail/Local Folders",
    "mail.server.server1.storeContractID": "@mozilla.org/msgstore/berkeleystore;1",
}
Mails = Sequence[str]


def preference(key: str, value: object) -> str:
    """A line of prefs.js."""
    told = f'"{value}"' if isinstance(value, str) else str(value).lower()
    return f'user_pref("{key}", {told});\n'


def mailbox(folders: Mapping[str, Mails]) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """Set-up steps for a profile with these local folders, and the files that they lay down."""
    files = {name: "".join(mails).encode() for name, mails in folders.items()}
    files["prefs.js"] = "".join(preference(*one) for one in _ACCOUNT.items()).encode()
    places = {name: f"{_LOCAL}/{name}" for name in folders} | {"prefs.js": f"{_PROFILE}/prefs.js"}
    steps = [
        ran(f"mkdir -p '{_LOCAL}' && printf '{_INI}' > {HOME}/.thunderbird/profiles.ini"),
        *(placed(name, path) for name, path in places.items()),
    ]
    return steps, files


def holds(name: str, gold: str) -> dict[str, Any]:
    """An evaluator: a local folder has exactly the mails of the gold file, read or not, tagged or not."""
    path = f"{_LOCAL}/{name}"
    return compared("check_thunderbird_folder", path, gold, ignore_status=True, ignore_keys=True)


def _mails(random: Random) -> list[str]:
    """Offers of different senders, in the order of their days."""
    chosen = zip(random.sample(WORDS, 5), random.sample(GOODS, 5), strict=True)
    return [
        mail(sender, f"Price of {goods}", f"{goods}: {random.randrange(5, 50)} euros a box.", day)
        for day, (sender, goods) in enumerate(chosen, 1)
    ]


def _subject(one: str) -> str:
    return one.partition("Subject: ")[2].partition("\n")[0]


def _filed(instruction: str, before: Mapping[str, Mails], gold: Mapping[str, Mails],
           misses: Mapping[str, Mapping[str, Mails]]) -> Scenario:  # fmt: skip
    """A task on the mails of two folders; misses name what the folders hold instead."""
    steps, files = mailbox(before)
    laid = {"gold": gold, **misses}
    for what, folders in laid.items():
        for name, mails in folders.items():
            files[f"{what.replace(' ', '-')}-{name}"] = "".join(mails).encode()

    def laying(what: str) -> Play:
        return [lay(f"{what.replace(' ', '-')}-{name}", f"{_LOCAL}/{name}") for name in laid[what]]

    return Scenario(
        f"{instruction} It is kept in Thunderbird, in the local folders.",
        steps,
        both(*(holds(name, f"gold-{name}") for name in gold)),
        laying("gold"),
        {what: laying(what) for what in misses},
        files,
    )


def _move(random: Random) -> Scenario:
    mails = _mails(random)
    wanted, other = random.sample(mails[:-1], 2)
    offers, inbox = mails[-1:], mails[:-1]
    left = [one for one in inbox if one != wanted]
    return _filed(
        f'Move the mail "{_subject(wanted)}" from Inbox to Offers.',
        {"Inbox": inbox, "Offers": offers},
        {"Inbox": left, "Offers": [*offers, wanted]},
        {
            "copied": {"Inbox": inbox, "Offers": [*offers, wanted]},
            "another": {"Inbox": [one for one in inbox if one != other], "Offers": [*offers, other]},
            "deleted": {"Inbox": left, "Offers": offers},
        },
    )


def _sort_out(random: Random) -> Scenario:
    mails = _mails(random)
    shop = random.choice(WORDS)
    bills = [mail(f"bills-{shop}", f"Bill {n}", f"{n * 7} euros, please.", 10 + n) for n in (1, 2, 3)]
    inbox = [one for pair in zip(mails, bills, strict=False) for one in pair] + mails[3:]
    return _filed(
        f"All mails from bills-{shop}@example.org in Inbox belong into the folder Bills: move them.",
        {"Inbox": inbox, "Bills": []},
        {"Inbox": mails, "Bills": bills},
        {
            "one left": {"Inbox": [*mails, bills[0]], "Bills": bills[1:]},
            "one too many": {"Inbox": mails[1:], "Bills": [*bills, mails[0]]},
            "copied": {"Inbox": inbox, "Bills": bills},
        },
    )


def _new_folder(random: Random) -> Scenario:
    name, other = random.sample(("Invoices", "Travel", "Receipts", "Club"), 2)
    steps, files = mailbox({"Inbox": _mails(random), "Offers": []})
    return Scenario(
        f"Make a folder {name} in Thunderbird's local folders, beside Inbox and not inside of another "
        "folder.",
        steps,
        printed(f"cd '{_LOCAL}' && test -f {name} && test ! -d Inbox.sbd && echo there", "there\n"),
        [shell(f"touch '{_LOCAL}/{name}'")],
        {
            "inside of Inbox": [shell(f"mkdir '{_LOCAL}/Inbox.sbd' && touch '{_LOCAL}/Inbox.sbd/{name}'")],
            "another name": [shell(f"touch '{_LOCAL}/{other}'")],
        },
        files,
    )


def _rule(random: Random) -> Scenario:
    word, other = random.sample(WORDS, 2)
    steps, files = mailbox({"Inbox": _mails(random), "Offers": []})
    place = f"{_LOCAL}/msgFilterRules.dat"

    def rules(field: str, word: str, folder: str = "Offers") -> bytes:
        return (
            'version="9"\nlogging="no"\nname="Offers"\nenabled="yes"\ntype="17"\naction="Move to folder"\n'
            f'actionValue="mailbox://nobody@Local%20Folders/{folder}"\n'
            f'condition="AND ({field},contains,{word})"\n'
        ).encode()

    wanted = {
        "enabled": "yes",
        "action": "Move to folder",
        "actionValue": "mailbox://nobody@Local%20Folders/Offers",
        "condition": [f"AND (subject,contains,{word})"],
    }
    files |= {
        "gold.dat": rules("subject", word),
        "sender.dat": rules("from", word),
        "word.dat": rules("subject", other),
        "folder.dat": rules("subject", word, "Inbox"),
    }
    return Scenario(
        f'Let Thunderbird move every new mail whose subject contains "{word}" to the folder Offers: make a '
        "filter for the local folders that matches all of this one condition.",
        steps,
        ruled(
            "check_thunderbird_filter",
            {"type": "vm_file", "path": place, "dest": "msgFilterRules.dat"},
            expect=[wanted],
        ),
        [lay("gold.dat", place)],
        {
            "by sender": [lay("sender.dat", place)],
            "another word": [lay("word.dat", place)],
            "another folder": [lay("folder.dat", place)],
        },
        files,
    )


_CARDS = (
    "import sqlite3, sys; book, *told = sys.argv[1:]; base = sqlite3.connect(book); "
    'base.executescript("CREATE TABLE IF NOT EXISTS cards (uid TEXT PRIMARY KEY, localId INTEGER); '
    'CREATE TABLE IF NOT EXISTS properties (card TEXT, name TEXT, value TEXT)"); '
    'base.execute("INSERT INTO cards VALUES (?, 1)", ("one",)); '
    'base.executemany("INSERT INTO properties VALUES (?, ?, ?)", '
    '[("one", *pair.split("=")) for pair in told]); base.commit()'
)


def _contact(random: Random) -> Scenario:
    shop, other = random.sample(WORDS, 2)
    name, address = f"{shop.title()} Lamps", f"orders@{shop}.example.org"
    steps, files = mailbox({"Inbox": _mails(random)})
    one = "SELECT 1 FROM properties WHERE card = c.uid AND name = '{}' AND value = '{}'"
    named, reached = one.format("DisplayName", name), one.format("PrimaryEmail", address)

    def written(book: str, name: str, address: str) -> Play:
        told = f"'DisplayName={name}' 'PrimaryEmail={address}'"
        return [shell(f"python3 -c '{_CARDS}' {_PROFILE}/{book} {told}")]

    return Scenario(
        f'Add a contact to Thunderbird\'s personal address book: the shop with the display name "{name}", '
        f"whose mail address is {address}.",
        steps,
        ruled(
            "run_sqlite3",
            {"type": "vm_file", "path": f"{_PROFILE}/abook.sqlite", "dest": "abook.sqlite"},
            sql=f"SELECT count(*) = 1 FROM cards c WHERE EXISTS ({named}) AND EXISTS ({reached})",
        ),
        written("abook.sqlite", name, address),
        {
            "another address": written("abook.sqlite", name, f"orders@{other}.example.org"),
            "another book": written("history.sqlite", name, address),
            "another name": written("abook.sqlite", f"{other.title()} Lamps", address),
        },
        files,
    )


@dataclass(frozen=True)
class _Setting:
    """A preference of Thunderbird's: what is asked for, with {} for the value, its key and its values."""

    instruction: str
    key: str
    values: tuple[object, ...]
    other: object

    def make(self, random: Random) -> Scenario:
        value = random.choice(self.values)

        def write(value: object) -> Play:
            line = preference(self.key, value).strip()
            return [shell(f"pkill thunderbird; sleep 0.5; echo '{line}' >> {_PROFILE}/prefs.js")]

        return Scenario(
            self.instruction.format(value),
            [
                ran(f"mkdir -p {_PROFILE} && printf '{_INI}' > {HOME}/.thunderbird/profiles.ini"),
                *(launched("thunderbird", "--profile", _PROFILE), window("Thunderbird")),
            ],
            ruled("check_thunderbird_prefs", _PREFERENCES, expect={self.key: {"method": "eq", "ref": value}}),
            write(value),
            {"another value": write(self.other), "not set": [shell("pkill thunderbird; sleep 0.5")]},
        )


_SETTINGS = {
    "thunderbird-autosave": _Setting(
        "Let Thunderbird save drafts by itself every {} minutes.",
        "mail.compose.autosaveinterval",
        (3, 7, 12, 25),
        40,
    ),
    "thunderbird-mark-as-read": _Setting(
        "A mail shall count as read only after I have looked at it for {} seconds: change Thunderbird's "
        "setting.",
        "mailnews.mark_message_read.delay.interval",
        (4, 8, 15, 20),
        1,
    ),
}

_A = ("thunderbird",)
TEMPLATES = (
    *(Template(name, _A, setting.make) for name, setting in _SETTINGS.items()),
    Template("thunderbird-move-mail", _A, _move),
    Template("thunderbird-move-bills", _A, _sort_out),
    Template("thunderbird-new-folder", _A, _new_folder),
    Template("thunderbird-filter", _A, _rule),
    Template("thunderbird-contact", _A, _contact),
)
