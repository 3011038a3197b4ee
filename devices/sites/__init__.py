"""Sites: real web applications with data of ours, each in a sandbox, leased together with a browser."""

from devices.sites.apps.data import DATA_SITE
from devices.sites.apps.forum import FORUM_SITE
from devices.sites.apps.money import MONEY_SITE
from devices.sites.apps.shop import SHOP_SITE
from devices.sites.apps.tracker import TRACKER_SITE
from devices.sites.apps.wiki import WIKI_SITE
from devices.sites.site import Site

SITES: dict[str, Site] = {
    site.name: site for site in (DATA_SITE, FORUM_SITE, MONEY_SITE, SHOP_SITE, TRACKER_SITE, WIKI_SITE)
}

__all__ = ["SITES", "Site"]
