"""The words of apps: titles of screens, labels of controls, and what is typed and found."""

SUBJECTS = (
    "Orders", "Invoices", "Clients", "Projects", "Tasks", "Reports", "Budgets", "Teams", "Events", "Photos",
    "Songs", "Books", "Recipes", "Trips", "Hotels", "Flights", "Rooms", "Lessons", "Exams", "Grades",
    "Letters", "Parcels", "Tickets", "Offers", "Stocks", "Goals", "Runs", "Meals", "Plants", "Pets",
    "Tools", "Parts", "Repairs", "Guests", "Tables", "Menus", "Films", "Games", "Maps", "Notes",
)  # fmt: skip
QUALITIES = (
    "New", "Old", "Open", "Closed", "Shared", "Private", "Urgent", "Weekly", "Monthly", "Local",
    "Foreign", "Small", "Large", "Early", "Late", "Paid", "Free", "Hidden", "Saved", "Other",
)  # fmt: skip
SWITCHES = (
    "Alerts", "Sounds", "Sync", "Backup", "Location", "Dark mode", "Preview", "Updates", "Roaming", "Sharing",
    "Captions", "Autoplay", "History", "Reminders", "Archive", "Badges",
)  # fmt: skip
FIELDS = (
    "Name",
    "City",
    "Street",
    "Email",
    "Phone",
    "Colour",
    "Size",
    "Amount",
    "Code",
    "Label",
    "Owner",
    "Topic",
)
TYPED = (
    "anna", "oslo", "blue", "maple", "seven", "river", "coral", "delta", "north", "amber", "pearl", "cedar",
    "lima", "quartz", "basil", "violet", "tiger", "lotus", "ember", "sage",
)  # fmt: skip
FACTS = ("Total", "Owner", "Number", "Date", "Price", "Weight", "Rating", "Status", "Contact", "Version")
