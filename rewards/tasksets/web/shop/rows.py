"""What the site `shop` (Oscar) keeps: products, baskets, orders, reviews, wish lists and customers.

Basket lines are those of baskets that are open, or saved for later. An order's address is what Oscar lets its
staff search for: names, lines and country in one text.
"""

from rewards.tasksets.web.store import Database, Entry, Table, origin

ME = "dana"
_NOW = "'2026-01-05 09:00:00'"
_MINE = f"(SELECT id FROM auth_user WHERE username = '{ME}')"
# Awaited: the next navigation would cancel a form that is still being sent. Without a form (the site does not
# answer yet) nobody is logged in, which set-up finds and reports as a fault to try again after.
_ENTER = f"""
const form = document.querySelector('#login_form');
if (!form) return;
form.elements['login-username'].value = '{ME}@shop.test';
form.elements['login-password'].value = 'timetable';
const told = new FormData(form);
told.append('login_submit', 'Log In');
return fetch(form.action, {{method: 'POST', body: told}}).then(() => {{}});
"""
# The page of the basket sends its changes behind the scenes.
_SETTLED = "!window.jQuery?.active"
_ITEMS = (
    "(SELECT group_concat(told, '; ') FROM (SELECT l.quantity || ' x ' || l.title AS told FROM order_line l "
    "WHERE l.order_id = o.id ORDER BY l.title))"
)
_CATEGORY = (
    "(SELECT min(c.name) FROM catalogue_productcategory x JOIN catalogue_category c ON c.id = x.category_id "
    "WHERE x.product_id = p.id)"
)


def _plain(table: str, key: str = "id", /, **columns: str) -> dict[str, list[str]]:
    """Statements for columns, by the name that tasks give them."""
    return {
        name: [f"UPDATE {table} SET {column} = :value WHERE {key} = :id"] for name, column in columns.items()
    }


def _linked(table: str, column: str, other: str, name: str) -> list[str]:
    """The statement that points a row to another table's row of this name, if there is one."""
    return [
        f"UPDATE OR IGNORE {table} SET {column} = (SELECT id FROM {other} WHERE {name} = :value ORDER BY id "
        "DESC LIMIT 1) WHERE id = :id"
    ]


def _added(table: str, /, **columns: str) -> dict[str, str]:
    names, values = ", ".join(columns), ", ".join(columns.values())
    return {
        "insert": f"INSERT INTO {table} ({names}) VALUES ({values})",
        "newest": f"SELECT max(id) FROM {table}",
    }


_PRODUCTS = {
    "product": Table(
        f"SELECT p.id AS id, p.title AS title, {_CATEGORY} AS category, p.description AS description, "
        "p.is_public AS public, s.price AS price, s.num_in_stock AS stock "
        "FROM catalogue_product p LEFT JOIN partner_stockrecord s ON s.product_id = p.id ORDER BY p.id",
        {
            **_plain("catalogue_product", title="title"),
            **_plain("partner_stockrecord", "product_id", price="price", stock="num_in_stock"),
        },
    ),
    "review": Table(
        "SELECT r.id AS id, p.title AS product, u.username AS customer, r.title AS title, r.body AS body, "
        "r.score AS score, r.status AS status, r.total_votes AS votes, r.delta_votes AS balance "
        "FROM reviews_productreview r LEFT JOIN catalogue_product p ON p.id = r.product_id "
        "LEFT JOIN auth_user u ON u.id = r.user_id ORDER BY r.id",
        {
            "product": _linked("reviews_productreview", "product_id", "catalogue_product", "title"),
            "customer": _linked("reviews_productreview", "user_id", "auth_user", "username"),
            **_plain(
                "reviews_productreview", title="title", body="body", score="score", votes="total_votes",
                balance="delta_votes",
            ),
        },
        **_added(
            "reviews_productreview", score="1", title="''", body="''", name="''", email="''", homepage="''",
            status="1", total_votes="0", delta_votes="0", date_created=_NOW,
        ),
        delete=["DELETE FROM reviews_productreview WHERE id = :id"],
    ),
    "alert": Table(
        "SELECT a.id AS id, p.title AS product, u.username AS customer, a.status AS status "
        "FROM customer_productalert a LEFT JOIN catalogue_product p ON p.id = a.product_id "
        "LEFT JOIN auth_user u ON u.id = a.user_id ORDER BY a.id",
        {
            "product": _linked("customer_productalert", "product_id", "catalogue_product", "title"),
            "customer": _linked("customer_productalert", "user_id", "auth_user", "username"),
            **_plain("customer_productalert", status="status"),
        },
        **_added(
            "customer_productalert", email="''", key="''", status="'Active'", product_id="1",
            date_created=_NOW,
        ),
    ),
}  # fmt: skip
_ORDERS = {
    "basket": Table(
        "SELECT l.id AS id, p.title AS product, u.username AS customer, l.quantity AS quantity, "
        "b.status AS basket FROM basket_line l JOIN basket_basket b ON b.id = l.basket_id "
        "JOIN catalogue_product p ON p.id = l.product_id LEFT JOIN auth_user u ON u.id = b.owner_id "
        "WHERE b.status IN ('Open', 'Saved') ORDER BY l.id",
        {
            "product": _linked("basket_line", "product_id", "catalogue_product", "title"),
            "quantity": ["UPDATE basket_line SET quantity = :value WHERE id = :id"],
            "basket": [
                f"UPDATE OR IGNORE basket_line SET basket_id = (SELECT max(id) FROM basket_basket WHERE "
                f"owner_id = {_MINE} AND status = :value) WHERE id = :id"
            ],
        },
        **_added(
            "basket_line", line_reference="hex(randomblob(8))", quantity="1", price_currency="'GBP'",
            date_created=_NOW, date_updated=_NOW, product_id="1", stockrecord_id="1",
            basket_id=f"(SELECT max(id) FROM basket_basket WHERE owner_id = {_MINE} AND status = 'Open')",
        ),
        delete=["DELETE FROM basket_line WHERE id = :id"],
    ),
    "order": Table(
        "SELECT o.id AS id, o.number AS number, u.username AS customer, o.status AS status, "
        f"{_ITEMS} AS items, a.search_text AS address, o.total_incl_tax AS total, "
        "substr(o.date_placed, 1, 10) AS placed FROM order_order o LEFT JOIN auth_user u ON u.id = o.user_id "
        "LEFT JOIN order_shippingaddress a ON a.id = o.shipping_address_id ORDER BY o.id",
        {
            "customer": _linked("order_order", "user_id", "auth_user", "username"),
            **_plain("order_order", status="status"),
            "items": [
                "DELETE FROM order_line WHERE order_id = :id",
                "INSERT INTO order_line (order_id, title, quantity, partner_name, partner_sku, "
                "partner_line_reference, partner_line_notes, line_price_incl_tax, line_price_excl_tax, "
                "line_price_before_discounts_incl_tax, line_price_before_discounts_excl_tax, status, "
                "allocation_cancelled, num_allocated) SELECT :id, p.title, n.value, '', '', '', '', 1, 1, 1, "
                "1, 'Pending', 0, 0 FROM catalogue_product p, json_each('[1, 2, 3, 4, 5]') n "
                "WHERE instr('; ' || :value || '; ', '; ' || n.value || ' x ' || p.title || '; ')",
            ],
            "address": [
                "INSERT INTO order_shippingaddress (title, first_name, last_name, line1, line2, line3, "
                "line4, state, postcode, search_text, phone_number, notes, country_id) "
                "VALUES ('', '', '', '', '', '', '', '', '', :value, '', '', 'GB')",
                "UPDATE order_order SET shipping_address_id = last_insert_rowid() WHERE id = :id",
            ],
        },
        **_added(
            "order_order", number="hex(randomblob(8))", currency="'GBP'", total_incl_tax="1",
            total_excl_tax="1", shipping_incl_tax="0", shipping_excl_tax="0", shipping_method="''",
            shipping_code="''", status="'Pending'", guest_email="''", date_placed=_NOW, analytics_tracked="0",
        ),
    ),
    "remark": Table(
        "SELECT n.id AS id, n.message AS text, o.number AS number, u.username AS author "
        "FROM order_ordernote n JOIN order_order o ON o.id = n.order_id "
        "LEFT JOIN auth_user u ON u.id = n.user_id WHERE n.note_type <> 'System' ORDER BY n.id",
        {
            **_plain("order_ordernote", text="message"),
            "number": _linked("order_ordernote", "order_id", "order_order", "number"),
            "author": _linked("order_ordernote", "user_id", "auth_user", "username"),
        },
        **_added(
            "order_ordernote", note_type="''", message="''", date_created=_NOW, date_updated=_NOW,
            order_id="1",
        ),
    ),
}  # fmt: skip
_CUSTOMERS = {
    "customer": Table(
        "SELECT id, username, first_name AS first, last_name AS last, email, is_staff AS staff, "
        "is_active AS active, password FROM auth_user ORDER BY id",
        _plain("auth_user", first="first_name", last="last_name", email="email"),
    ),
    "address": Table(
        "SELECT a.id AS id, a.line1 AS line, a.line2 AS line2, a.line3 AS line3, a.line4 AS town, "
        "a.state AS state, a.postcode AS postcode, a.first_name AS first, a.last_name AS last, "
        "u.username AS customer, a.phone_number AS phone, a.notes AS notes, "
        "a.is_default_for_shipping AS ships, a.is_default_for_billing AS bills "
        "FROM address_useraddress a LEFT JOIN auth_user u ON u.id = a.user_id ORDER BY a.id",
        {
            **_plain(
                "address_useraddress", line="line1", town="line4", postcode="postcode", first="first_name",
                last="last_name", ships="is_default_for_shipping",
            ),
            "customer": _linked("address_useraddress", "user_id", "auth_user", "username"),
        },
        **_added(
            "address_useraddress", title="''", first_name="''", last_name="''", line1="''", line2="''",
            line3="''", line4="''", state="''", postcode="''", search_text="''", phone_number="''",
            notes="''", is_default_for_shipping="0", is_default_for_billing="0", hash="hex(randomblob(8))",
            date_created=_NOW, country_id="'GB'", user_id=_MINE, num_orders_as_shipping_address="0",
            num_orders_as_billing_address="0",
        ),
        delete=["DELETE FROM address_useraddress WHERE id = :id"],
    ),
    "wishlist": Table(
        "SELECT w.id AS id, w.name AS name, w.key AS key, u.username AS customer, w.visibility AS visibility "
        "FROM wishlists_wishlist w LEFT JOIN auth_user u ON u.id = w.owner_id ORDER BY w.id",
        {
            "customer": _linked("wishlists_wishlist", "owner_id", "auth_user", "username"),
            **_plain("wishlists_wishlist", name="name", visibility="visibility"),
        },
        **_added(
            "wishlists_wishlist", name="''", key="substr(hex(randomblob(8)), 1, 6)", visibility="'Private'",
            owner_id=_MINE, date_created=_NOW,
        ),
    ),
    "wish": Table(
        "SELECT l.id AS id, p.title AS product, w.name AS list, l.quantity AS quantity "
        "FROM wishlists_line l JOIN wishlists_wishlist w ON w.id = l.wishlist_id "
        "LEFT JOIN catalogue_product p ON p.id = l.product_id ORDER BY l.id",
        {
            "product": _linked("wishlists_line", "product_id", "catalogue_product", "title"),
            "list": _linked("wishlists_line", "wishlist_id", "wishlists_wishlist", "name"),
            **_plain("wishlists_line", quantity="quantity"),
        },
        **_added("wishlists_line", quantity="1", title="''",
                 wishlist_id="(SELECT min(id) FROM wishlists_wishlist)"),
        delete=["DELETE FROM wishlists_line WHERE id = :id"],
    ),
}  # fmt: skip

SHOP = Database(
    "shop",
    "django-oscar 4.2.1",
    "shop.db",
    {**_PRODUCTS, **_ORDERS, **_CUSTOMERS},
    Entry("/accounts/login/", _ENTER, "document.querySelector('#logout_link') !== null"),
    _SETTLED,
)
ORIGIN = origin(SHOP.site)
