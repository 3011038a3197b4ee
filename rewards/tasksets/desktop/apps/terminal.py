"""Tasks on what files say, on programs that run and on the shell, in the terminal."""

from random import Random

from rewards.tasksets.desktop.scenario import (
    HOME,
    TERMINAL,
    Scenario,
    Template,
    compared,
    edited,
    in_terminal,
    launched,
    lay,
    placed,
    printed,
    ran,
    shell,
)
from rewards.tasksets.desktop.words import PLACES, WORDS

_DESK, _DOCUMENTS = f"{HOME}/Desktop", f"{HOME}/Documents"


def _count_lines(random: Random) -> Scenario:
    word, other = random.sample(WORDS, 2)
    hits = random.randrange(3, 9)
    lines = [f"{i} {word}" for i in range(hits)] + [f"{i} {other}" for i in range(20 - hits)]
    random.shuffle(lines)
    text = "\n".join(lines) + "\n"
    return Scenario(
        f'How many lines of ~/Documents/list.txt contain the word "{word}"? Write the number, and nothing '
        "else, to ~/Desktop/count.txt.",
        [placed("list.txt", f"{_DOCUMENTS}/list.txt"), *TERMINAL],
        printed(f"cat {_DESK}/count.txt | tr -d '[:space:]'", str(hits)),
        in_terminal(f"grep -c {word} Documents/list.txt > Desktop/count.txt"),
        {
            "all lines": [shell(f"echo 20 > {_DESK}/count.txt")],
            "the lines": [shell(f"grep {word} {_DOCUMENTS}/list.txt > {_DESK}/count.txt")],
        },
        {"list.txt": text.encode()},
    )


def _joined_tables(random: Random) -> Scenario:
    head, months = "place,visitors\n", ("january", "february", "march")
    bodies = [
        "".join(f"{place},{random.randrange(50, 900)}\n" for place in random.sample(PLACES, 3))
        for _ in months
    ]
    named = {f"{month}.csv": (head + body).encode() for month, body in zip(months, bodies, strict=True)}
    path = f"{_DOCUMENTS}/quarter.csv"
    return Scenario(
        "In ~/Documents there is a table of each month: january.csv, february.csv and march.csv. Put all "
        "their rows, in this order, into one table quarter.csv there. Its head comes once, as the first "
        "line.",
        [*(placed(name, f"{_DOCUMENTS}/{name}") for name in named), *TERMINAL],
        compared("compare_csv", path, "gold.csv"),
        in_terminal("cd Documents && (cat january.csv; tail -qn +2 february.csv march.csv) > quarter.csv"),
        {
            "three heads": [shell(f"cd {_DOCUMENTS} && cat january.csv february.csv march.csv > {path}")],
            "by name": [lay("by-name.csv", path)],
            "a month missing": [shell(f"cd {_DOCUMENTS} && cat january.csv > {path}")],
        },
        named
        | {
            "gold.csv": (head + "".join(bodies)).encode(),
            "by-name.csv": (head + bodies[1] + bodies[0] + bodies[2]).encode(),
        },
    )


def _other_host(random: Random) -> Scenario:
    old, new, *names = random.sample(WORDS, 5)
    before = {f"{name}.conf": f"host={old}\nport={random.randrange(2000, 9000)}\n" for name in names}
    before["README"] = f"The first host was {old}.\n"
    folder = f"{_DOCUMENTS}/conf"
    after = {name: text.replace(old, new) if name.endswith("conf") else text for name, text in before.items()}
    show = f"cd {folder} && for n in $(ls | LC_ALL=C sort); do echo $n; cat $n; done"
    return Scenario(
        f"The host {old} is called {new} now: change its name in all .conf files of ~/Documents/conf. What "
        "README says there is history and stays.",
        [*(placed(name, f"{folder}/{name}") for name in before), *TERMINAL],
        printed(show, "".join(f"{name}\n{after[name]}" for name in sorted(after))),
        in_terminal(f"sed -i s/{old}/{new}/ Documents/conf/*.conf"),
        {
            "README too": [shell(f"sed -i s/{old}/{new}/ {folder}/*")],
            "one left": [shell(f"sed -i s/{old}/{new}/ {folder}/{names[0]}.conf {folder}/{names[1]}.conf")],
            "added": [shell(f"for n in {folder}/*.conf; do echo host={new} >> $n; done")],
        },
        {name: text.encode() for name, text in before.items()},
    )


def _codes(random: Random) -> Scenario:
    codes = [f"E{number}" for number in random.sample(range(100, 999), 5)]
    lines = [f"{random.randrange(10, 24)}:{random.randrange(10, 60)} {code} failed" for code in codes * 3]
    lines += [f"{random.randrange(10, 24)}:{random.randrange(10, 60)} ready" for _ in range(10)]
    random.shuffle(lines)
    path = f"{_DESK}/codes.txt"
    return Scenario(
        "Which error codes (an E and three digits) are in ~/Documents/server.log? Write them to "
        "~/Desktop/codes.txt, each once, a line for each, the smallest first.",
        [placed("server.log", f"{_DOCUMENTS}/server.log"), *TERMINAL],
        compared("compare_text_file", path, "gold.txt"),
        in_terminal("grep -o 'E[0-9][0-9][0-9]' Documents/server.log | sort -u > Desktop/codes.txt"),
        {
            "with repeats": [shell(f"grep -o 'E[0-9]*' {_DOCUMENTS}/server.log | sort > {path}")],
            "backwards": [shell(f"grep -o 'E[0-9]*' {_DOCUMENTS}/server.log | sort -ru > {path}")],
            "whole lines": [shell(f"grep 'E[0-9]' {_DOCUMENTS}/server.log > {path}")],
        },
        {
            "server.log": ("\n".join(lines) + "\n").encode(),
            "gold.txt": "".join(f"{code}\n" for code in sorted(codes)).encode(),
        },
    )


def _total_size(random: Random) -> Scenario:
    sizes = [random.randrange(1000, 90_000) for _ in range(4)]
    places = ("web.log", "old/web.log", "old/mail.log", "old/2020/web.log")
    made = " && ".join(
        f"head -c {size} /dev/zero > {place}" for size, place in zip(sizes, places, strict=True)
    )
    answer = f"{_DESK}/bytes.txt"
    return Scenario(
        "How many bytes have the .log files of ~/logs together, those in its folders included? Write the "
        "number to ~/Desktop/bytes.txt.",
        [
            ran(f"mkdir -p {HOME}/logs/old/2020 && cd {HOME}/logs && {made} && echo no log > old/notes.txt"),
            *TERMINAL,
        ],
        printed(f"tr -d '[:space:]' < {answer}", str(sum(sizes))),
        in_terminal(
            "find logs -name '*.log' -printf '%s\\n' | awk '{n+=$1} END {print n}' > Desktop/bytes.txt"
        ),
        {
            "without folders": [shell(f"echo {sizes[0]} > {answer}")],
            "with the notes": [shell(f"echo {sum(sizes) + 7} > {answer}")],
            "in kilobytes": [shell(f"echo {sum(sizes) // 1024} > {answer}")],
        },
    )


def _hangs(random: Random) -> Scenario:
    hangs, works = random.sample(WORDS, 2)
    programs = f"{HOME}/bin"
    made = " && ".join(f"cp /bin/sleep {programs}/{name}" for name in (hangs, works))
    return Scenario(
        f"Two programs of mine are running, {hangs} and {works}. {hangs} hangs: end it. {works} has to go "
        "on.",
        [
            ran(f"mkdir -p {programs} && {made}"),
            *(launched(f"{programs}/{name}", "3000") for name in (hangs, works)),
            *TERMINAL,
        ],
        printed(f"for n in {hangs} {works}; do pgrep -x $n >/dev/null && echo $n; done", f"{works}\n"),
        in_terminal(f"pkill -x {hangs}"),
        {
            "both": [shell(f"pkill -x {hangs}; pkill -x {works}")],
            "the other": [shell(f"pkill -x {works}")],
            "its file removed": [shell(f"rm {programs}/{hangs}")],
        },
    )


def _every_shell(random: Random) -> Scenario:
    name, value = random.choice(("PROJECT", "STAGE", "REGION")), random.choice(WORDS)
    rc = f"{HOME}/.bashrc"
    return edited(
        f"The environment variable {name} shall be {value} in every terminal that I open from now on. Keep "
        "what my .bashrc has already.",
        rc,
        b"alias ll='ls -la'\n",
        f"alias ll='ls -la'\nexport {name}={value}\n".encode(),
        lambda _: printed(
            f"bash -ic 'printenv {name}; alias ll' 2>/dev/null", f"{value}\nalias ll='ls -la'\n"
        ),
        {
            "not exported": f"alias ll='ls -la'\n{name}={value}\n".encode(),
            "the rest lost": f"export {name}={value}\n".encode(),
        },
        begin=TERMINAL,
        solution=in_terminal(f"echo 'export {name}={value}' >> .bashrc"),
        unsaved=in_terminal(f"export {name}={value}"),
    )


_A = ("os",)
TEMPLATES = (
    Template("os-count-lines", _A, _count_lines, screen=True),
    Template("os-join-tables", _A, _joined_tables, screen=True),
    Template("os-rename-host", _A, _other_host, screen=True),
    Template("os-error-codes", _A, _codes, screen=True),
    Template("os-total-size", _A, _total_size, screen=True),
    Template("os-end-program", _A, _hangs, screen=True),
    Template("os-environment", _A, _every_shell, screen=True),
)
