"""Tasks on the site `money`, an I Hate Money with the bills of a flat."""

from rewards.tasksets.web.money import bills
from rewards.tasksets.web.money.rows import MONEY
from rewards.tasksets.web.template import Template

TEMPLATES = tuple(
    Template(f"money-{name}", (MONEY,), steps, make)
    for name, steps, make in (
        ("add", 8, bills.add),
        ("add-for-some", 13, bills.add_for_some),
        ("pay-back", 14, bills.pay_back),
        ("correct", 5, bills.correct),
        ("other-payer", 6, bills.other_payer),
        ("without", 5, bills.without),
        ("delete", 4, bills.delete),
        ("move-in", 4, bills.move_in),
        ("weigh", 5, bills.weigh),
        ("move-out", 4, bills.move_out),
        ("ask-paid", 5, bills.ask_paid),
        ("ask-dearest", 4, bills.ask_dearest),
        ("infeasible-member", 5, bills.no_such_member),
        ("infeasible-bill", 4, bills.no_such_bill),
    )
)
