"""The pages of MiniWoB++, by what they ask for, with the actions that their longest shortest solution takes.

Seeds draw the length of many pages (how many boxes to tick, how many months to go back); the number is for
the longest of them that we met, and bounds an episode at twice as many actions.
"""

# Pages the demo learns from, by clicks alone.
TRAIN = {
    "click-test-2": 1,
    "click-dialog-2": 1,
    "click-color": 1,
    "click-tab": 1,
    "click-widget": 1,
    "focus-text-2": 1,
    "identify-shape": 1,
    "grid-coordinate": 1,
    "click-collapsible": 2,
    "circle-center": 2,
}
# Pages that no policy here is trained on, by demonstrations or by reward.
UNSEEN = {
    "click-test": 1,
    "click-dialog": 1,
    "click-test-transfer": 1,
    "focus-text": 1,
    "click-button-sequence": 2,
    "find-midpoint": 2,
}
# Pages whose elements are used in grounding demonstrations ("point at this"), never their own task.
GROUNDING = {"click-button": 1, "count-sides": 1}
CLICKS = {**TRAIN, **UNSEEN, **GROUNDING}

FIELDS = {
    "enter-text": 3,
    "enter-text-2": 3,
    "enter-text-dynamic": 3,
    "enter-password": 5,
    "login-user": 5,
    "login-user-popup": 7,
    "text-transform": 3,
    "enter-date": 3,
    "enter-time": 3,
    "simple-arithmetic": 3,
    "simple-algebra": 3,
    "visual-addition": 3,
    "find-word": 3,
    "copy-paste": 3,
    "copy-paste-2": 4,
    "read-table": 3,
    "read-table-2": 5,
    "multi-layouts": 8,
    "multi-orderings": 7,
    "use-autocomplete": 5,
    "use-autocomplete-nodelay": 5,
    "use-spinner": 11,
    "use-slider": 8,
    "use-slider-2": 13,
    "form-sequence": 6,
    "form-sequence-2": 4,
    "scroll-text": 3,
    "scroll-text-2": 2,
    "sign-agreement": 5,
    "use-colorwheel": 4,
    "use-colorwheel-2": 4,
    "guess-number": 18,
    "terminal": 2,
}
CHOICES = {
    "click-checkboxes": 7,
    "click-checkboxes-large": 14,
    "click-checkboxes-transfer": 7,
    "click-checkboxes-soft": 7,
    "click-option": 2,
    "choose-list": 4,
    "click-scroll-list": 6,
    "choose-date": 14,
    "choose-date-easy": 3,
    "choose-date-medium": 4,
    "choose-date-nodelay": 14,
    "click-menu": 6,
    "click-menu-2": 4,
    "click-link": 1,
    "click-tab-2": 2,
    "click-tab-2-easy": 2,
    "click-tab-2-medium": 2,
    "click-tab-2-hard": 2,
    "click-collapsible-2": 3,
    "click-collapsible-2-nodelay": 3,
    "click-collapsible-nodelay": 2,
    "click-shades": 9,
    "click-shape": 1,
    "count-shape": 1,
    "odd-or-even": 4,
    "number-checkboxes": 18,
    "ascending-numbers": 5,
    "generate-number": 20,
    "find-greatest": 2,
    "buy-ticket": 2,
    "click-pie": 5,
    "form-sequence-3": 4,
    "unicode-test": 1,
}
PLACES = {
    "email-inbox": 7,
    "email-inbox-delete": 2,
    "email-inbox-forward": 6,
    "email-inbox-forward-nl": 6,
    "email-inbox-forward-nl-turk": 7,
    "email-inbox-important": 2,
    "email-inbox-nl-turk": 7,
    "email-inbox-noscroll": 6,
    "email-inbox-reply": 6,
    "email-inbox-star-reply": 6,
    "search-engine": 5,
    "phone-book": 6,
    "navigate-tree": 5,
    "social-media": 4,
    "social-media-all": 16,
    "social-media-some": 16,
    "order-food": 8,
    "daily-calendar": 6,
    "book-flight": 13,
    "book-flight-nodelay": 13,
}
DRAGS = {
    "drag-box": 2,
    "drag-items": 1,
    "drag-items-grid": 1,
    "drag-sort-numbers": 4,
    "drag-circle": 2,
    "drag-single-shape": 2,
    "drag-shapes": 5,
    "drag-shapes-2": 6,
    "draw-circle": 2,
    "draw-line": 2,
    "resize-textarea": 2,
    "highlight-text": 2,
    "highlight-text-2": 2,
    "text-editor": 6,
    "right-angle": 2,
    "bisect-angle": 2,
}
# Pages that answer back. The oracle of hot-cold knows the place from the seed; who looks for it takes longer.
GAMES = {"hot-cold": 10, "tic-tac-toe": 5, "drag-cube": 24}
# Pages whose solutions are more than clicks or have more of them: in no split of the demo.
STEPS = {**FIELDS, **CHOICES, **PLACES, **DRAGS, **GAMES}
# Of these, pages that also pay for a part of the answer, so that a wrong one can earn a point.
PARTIAL = frozenset(
    {
        "click-checkboxes",
        "click-checkboxes-large",
        "click-checkboxes-transfer",
        "click-checkboxes-soft",
        "find-greatest",
        "generate-number",
        "bisect-angle",
        "draw-circle",
        "draw-line",
        "drag-shapes-2",
        "hot-cold",
        "right-angle",
        "use-colorwheel",
        "use-colorwheel-2",
    }
)
# Pages without an oracle, and why. Their episodes have as many actions as most of the others allow.
UNSOLVED = {
    "click-pie-nodelay": "its first item, asked for by one seed in six, is remade under the pointer",
    "stock-market": "its price changes ten times a second, and some seeds reach the limit only once",
}
UNSOLVED_STEPS = 20
# What the package has besides, and why it is no task.
LEFT_OUT = {
    **dict.fromkeys(
        ("button-delay", "chase-circle", "hover-shape", "moving-items", "simon-says"),
        "the package does not list it among its environments: it is a matter of seconds",
    ),
    **dict.fromkeys(
        ("flight.AA", "flight.Alaska", "flight.Alaska-auto"),
        "it is a copy of an airline's site for a screen of another size, apart from the 125 pages",
    ),
}
# Pages that keep something of the last episode, such as a colour, unless they are loaded anew.
RELOADED = frozenset({"drag-cube", "text-editor", "use-colorwheel", "use-colorwheel-2"})
