"""Fill the site `shop`: an outfitter's products, customers, orders, baskets, wish lists and reviews."""

import datetime
import os
import sys
from decimal import Decimal
from pathlib import Path
from random import Random

DATA = Path(sys.argv[1])
os.environ.update(DJANGO_SETTINGS_MODULE="settings", SHOP_DATA=str(DATA))

import django  # type: ignore[import-not-found]  # noqa: E402
from django.conf import settings  # type: ignore[import-not-found]  # noqa: E402

settings.HAYSTACK_SIGNAL_PROCESSOR = (
    "haystack.signals.BaseSignalProcessor"  # the index is made once, at the end
)
django.setup()

from django.apps import apps  # type: ignore[import-not-found]  # noqa: E402
from django.contrib.auth import get_user_model  # type: ignore[import-not-found]  # noqa: E402
from django.contrib.auth.hashers import make_password  # type: ignore[import-not-found]  # noqa: E402
from django.core.management import call_command  # type: ignore[import-not-found]  # noqa: E402
from django.db import connection  # type: ignore[import-not-found]  # noqa: E402
from django.test import Client  # type: ignore[import-not-found]  # noqa: E402
from oscar.apps.address.models import Country, UserAddress  # type: ignore[import-not-found]  # noqa: E402
from oscar.apps.basket.models import Basket  # type: ignore[import-not-found]  # noqa: E402
from oscar.apps.catalogue.categories import create_from_breadcrumbs  # type: ignore[import-not-found]  # noqa: E402
from oscar.apps.catalogue.models import Product, ProductImage  # type: ignore[import-not-found]  # noqa: E402
from oscar.apps.catalogue.reviews.models import ProductReview  # type: ignore[import-not-found]  # noqa: E402
from oscar.apps.order.models import Order, ShippingAddress  # type: ignore[import-not-found]  # noqa: E402
from oscar.apps.partner.strategy import Default  # type: ignore[import-not-found]  # noqa: E402
from oscar.apps.wishlists.models import WishList  # type: ignore[import-not-found]  # noqa: E402
from oscar.test.factories import create_order, create_product  # type: ignore[import-not-found]  # noqa: E402
from PIL import Image, ImageDraw  # noqa: E402

PASSWORD = "timetable"
ME = ("dana", "Dana", "Orsolic")
CUSTOMERS = (
    ("ilse", "Ilse", "Varnholt"),
    ("bram", "Bram", "Okkervil"),
    ("tove", "Tove", "Mirandel"),
    ("yusuf", "Yusuf", "Harrowgate"),
    ("pia", "Pia", "Castellane"),
)
_SHELVES = {  # category: colour of its pictures, lowest and highest price, products
    "Tents": ("#5d7f4b", 120, 420, "Skarvi 2, Skarvi 4, Lommen Dome, Brakk Tunnel, Pinnow Tarp, Ulver Solo"),
    "Stoves": ("#a8553a", 25, 110, "Glim 1, Glim Duo, Ember Fold, Tarn Kettle, Soot Box, Kindle Ring"),
    "Lamps": (
        "#c39b2f",
        9,
        60,
        "Morro Lantern, Firefly Strap, Dusk Clip, Beacon Mini, Hollow Light, Vesper Lamp",
    ),
    "Packs": ("#47688c", 35, 180, "Roam 20, Roam 45, Ferry Duffel, Ledge Pouch, Carrier 60, Moss Sling"),
}
_SOLD_OUT = ("Ulver Solo", "Soot Box", "Beacon Mini")
_STATUSES = ("Pending", "Being packed", "Shipped", "Complete", "Cancelled")
_OPINIONS = (
    ("Did what it should", "Three nights of rain and no complaint."),
    ("Lighter than it looks", "Carried it over the ridge without noticing."),
    ("Not for tall people", "Fine otherwise, but mind the length."),
    ("Good value", "Would buy it again."),
    ("The zip gave up", "It lasted one summer, which is one too few."),
)
_BEGAN = datetime.datetime(2026, 1, 5, 9, tzinfo=datetime.UTC)
_FIRST_ORDER = 100201
_ORDERS = 20


def main() -> None:
    random = Random(20260304)
    # Tables as the models describe them, without the history of how they came to be so.
    settings.MIGRATION_MODULES = {app.label: None for app in apps.get_app_configs()}
    call_command("migrate", run_syncdb=True, verbosity=0)
    country = Country.objects.create(
        iso_3166_1_a2="GB", iso_3166_1_a3="GBR", name="United Kingdom", printable_name="United Kingdom",
        is_shipping_country=True,
    )  # fmt: skip
    people = [_person(*names, country, staff=names is ME) for names in (ME, *CUSTOMERS)]
    UserAddress.objects.create(
        user=people[0], country=country, first_name="Dana", last_name="Orsolic", line1="3 Boathouse Row",
        line4="Oldbeck", postcode="N7 4QT",
    )  # fmt: skip
    products = _catalogue(random)
    for number in range(_FIRST_ORDER, _FIRST_ORDER + _ORDERS):
        _order(random, number, people[0] if number % 4 == 0 else random.choice(people), products, country)
    bought = random.sample(products, 8)
    _basket(people[0], Basket.OPEN, bought[:2], 1)
    _basket(people[0], Basket.SAVED, bought[2:3], 1)
    for name, key, some in (("Autumn trip", "autumn", bought[3:6]), ("Presents", "gifts1", bought[6:])):
        wishes = WishList.objects.create(owner=people[0], name=name)
        WishList.objects.filter(pk=wishes.pk).update(key=key)  # `save` draws one
        for product in some:
            wishes.add(product)
    _reviews(random, people[1:])
    for number, message in ((100202, "Paid by transfer."), (100209, "Deliver to the back door.")):
        Order.objects.get(number=number).notes.create(user=people[0], note_type="Info", message=message)
    _date()
    call_command("rebuild_index", interactive=False, verbosity=0)
    _pictures()


def _person(name: str, first: str, last: str, country: object, *, staff: bool) -> object:
    user = get_user_model().objects.create(
        username=name, email=f"{name}@shop.test", first_name=first, last_name=last, is_staff=staff,
        is_superuser=staff, password=make_password(PASSWORD, salt=name, hasher="md5"),
    )  # fmt: skip
    UserAddress.objects.create(
        user=user, country=country, is_default_for_shipping=True, **_address(name, first, last)
    )
    return user


def _address(name: str, first: str, last: str) -> dict[str, str]:
    number = sum(map(ord, name)) % 90 + 1
    return {
        "first_name": first, "last_name": last, "line1": f"{number} Quarry Lane", "line4": "Fernhollow",
        "postcode": "N1 9ZZ",
    }  # fmt: skip


def _catalogue(random: Random) -> list[object]:
    """Add all products; those that can be bought are returned."""
    products = []
    number = 0
    for category, (colour, lowest, highest, told) in _SHELVES.items():
        shelf = create_from_breadcrumbs(category)
        names = told.split(", ")
        for name, price in zip(names, random.sample(range(lowest, highest), len(names)), strict=True):
            number += 1
            product = create_product(
                upc=f"FH-{number:03}", title=name, product_class="Camping goods", partner_name="Holt & Amsel",
                partner_sku=f"HA-{number:03}", price=price - Decimal("0.05"),
                num_in_stock=0 if name in _SOLD_OUT else random.randint(20, 60),
                description=f"<p>{name}, from our {category.lower()}.</p>",
            )  # fmt: skip
            product.categories.add(shelf)
            _picture(product, name, colour)
            products += [] if name in _SOLD_OUT else [product]
    return products


def _picture(product: object, name: str, colour: str) -> None:
    """Draw a picture of the product: its initials on its category's colour."""
    path = DATA / "media/products" / f"{name.lower().replace(' ', '-')}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.new("RGB", (400, 300), colour)
    initials = "".join(word[0] for word in name.split())
    ImageDraw.Draw(picture).text((200, 150), initials, "white", anchor="mm", font_size=120)
    picture.save(path)
    ProductImage.objects.create(product=product, original=str(path.relative_to(DATA / "media")))


def _basket(user: object, status: str, products: list[object], quantity: int) -> Basket:
    basket = Basket.objects.create(owner=user, status=status)
    basket.strategy = Default()
    for product in products:
        basket.add_product(product, quantity)
    return basket


def _order(random: Random, number: int, user: object, products: list[object], country: object) -> None:
    basket = _basket(user, Basket.OPEN, random.sample(products, random.randint(1, 3)), random.randint(1, 2))
    name = user.username  # type: ignore[attr-defined]
    there = ShippingAddress.objects.create(
        country=country,
        **_address(name, user.first_name, user.last_name),  # type: ignore[attr-defined]
    )
    order = create_order(
        number=str(number), basket=basket, user=user, shipping_address=there, billing_address=None,
        status="Pending",
    )  # fmt: skip
    status = random.choice(_STATUSES)
    Order.objects.filter(pk=order.pk).update(status=status)
    order.lines.update(status=status if status == "Cancelled" else "Pending")


def _reviews(random: Random, people: list[object]) -> None:
    """Add reviews, at most one by a customer of a product."""
    pairs = [(product, user) for product in Product.objects.all() for user in people]
    for product, user in random.sample(pairs, 18):
        title, body = random.choice(_OPINIONS)
        ProductReview.objects.create(
            product=product, user=user, title=title, body=body, score=random.randint(2, 5),
            status=ProductReview.APPROVED,
        )  # fmt: skip


def _date() -> None:
    """Give every row fixed times: orders a day each, everything else the first day."""
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            for column in connection.introspection.get_table_description(cursor, table):
                if column.name.startswith("date_") or column.name == "last_login":
                    _set(cursor, table, column.name)
    for order in Order.objects.order_by("number"):
        day = _BEGAN + datetime.timedelta(days=int(order.number) - _FIRST_ORDER)
        Order.objects.filter(pk=order.pk).update(date_placed=day)


def _set(cursor: object, table: str, column: str) -> None:
    cursor.execute(  # type: ignore[attr-defined]
        f"UPDATE {table} SET {column} = %s WHERE {column} IS NOT NULL", [f"{_BEGAN:%Y-%m-%d %H:%M:%S}"]
    )


def _pictures() -> None:
    """Look at the pages of products once, which makes their thumbnails."""
    client = Client(SERVER_NAME="shop.test")
    for address in ("/catalogue/", *(p.get_absolute_url() for p in Product.objects.all())):
        if client.get(address).status_code != 200:
            sys.exit(f"{address} cannot be shown")


if __name__ == "__main__":
    main()
