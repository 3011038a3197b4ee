"""Tasks on the site `shop`, an Oscar in which dana is logged in, as a customer and at the dashboard."""

from rewards.tasksets.web.shop import account, buying, desk
from rewards.tasksets.web.shop.rows import SHOP
from rewards.tasksets.web.template import Template

TEMPLATES = tuple(
    Template(f"shop-{name}", (SHOP,), steps, make)
    for name, steps, make in (
        ("add", 6, buying.add),
        ("add-cheapest", 6, buying.add_cheapest),
        ("quantity", 5, buying.quantity),
        ("take-out", 4, buying.take_out),
        ("save", 4, buying.save),
        ("check-out", 10, buying.check_out),
        ("send", 18, buying.send),
        ("review", 9, account.review),
        ("vote", 6, account.vote),
        ("wish", 6, account.wish),
        ("unwish", 6, account.unwish),
        ("wish-more", 6, account.wish_more),
        ("new-list", 7, account.new_list),
        ("change-address", 8, account.change_address),
        ("new-address", 14, account.new_address),
        ("default-address", 5, account.default_address),
        ("alert", 5, account.alert),
        ("status", 7, desk.status),
        ("remark", 7, desk.remark),
        ("stock", 8, desk.stock),
        ("drop-review", 6, desk.drop_review),
        ("ask-total", 5, desk.ask_total),
        ("ask-orders", 6, desk.ask_orders),
        ("ask-dearest", 6, desk.ask_dearest),
        ("ask-bought", 6, desk.ask_bought),
        ("infeasible-product", 4, desk.no_such_product),
        ("infeasible-status", 6, desk.no_such_status),
        ("infeasible-sold-out", 5, desk.sold_out),
    )
)
