"""Tasks across two sites: what one of them says goes into the other, or both have to change."""

from rewards.tasksets.web.across import forum, records, wiki
from rewards.tasksets.web.data.rows import COUNTERS
from rewards.tasksets.web.forum.rows import FORUM
from rewards.tasksets.web.money.rows import MONEY
from rewards.tasksets.web.shop.rows import SHOP
from rewards.tasksets.web.template import Template
from rewards.tasksets.web.tracker.rows import TRACKER
from rewards.tasksets.web.wiki.rows import WIKI

TEMPLATES = tuple(
    Template(f"across-{name}", stores, steps, make)
    for name, stores, steps, make in (
        ("pass-on", (COUNTERS, TRACKER), 14, records.pass_on),
        ("report-twice", (COUNTERS, TRACKER), 18, records.report_twice),
        ("close-both", (COUNTERS, TRACKER), 14, records.close_both),
        ("busiest-title", (TRACKER, COUNTERS), 15, records.busiest_title),
        ("ask-load", (TRACKER, COUNTERS), 14, records.ask_load),
        ("equip", (SHOP, COUNTERS), 12, records.equip),
        ("ask-cost", (SHOP, COUNTERS), 12, records.ask_cost),
        ("crew", (COUNTERS, SHOP), 14, records.stock_for_repairs),
        ("refer", (TRACKER, SHOP), 14, records.refer),
        ("largest-order", (SHOP, TRACKER), 18, records.largest_order),
        ("cancel", (SHOP, TRACKER), 15, records.cancel),
        ("share", (SHOP, MONEY), 12, records.share),
        ("look-after", (WIKI, TRACKER), 12, wiki.look_after),
        ("supplies", (WIKI, SHOP), 10, wiki.supplies),
        ("bought", (WIKI, MONEY), 12, wiki.bought),
        ("district-crew", (COUNTERS, WIKI), 14, wiki.district_crew),
        ("open-repairs", (COUNTERS, WIKI), 12, wiki.open_repairs),
        ("order-total", (SHOP, WIKI), 12, wiki.order_total),
        ("largest-bill", (MONEY, WIKI), 12, wiki.largest_bill),
        ("ask-room", (WIKI, TRACKER), 10, wiki.ask_room),
        ("broken", (FORUM, COUNTERS), 12, forum.broken),
        ("trouble", (FORUM, TRACKER), 12, forum.trouble),
        ("shed", (FORUM, MONEY), 12, forum.shed),
        ("lamp", (SHOP, FORUM), 12, forum.lamp),
        ("whom-to-call", (FORUM, WIKI), 12, forum.whom_to_call),
        ("order-aloud", (SHOP, FORUM), 16, forum.order_aloud),
    )
)
