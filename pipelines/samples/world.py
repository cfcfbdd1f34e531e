"""Figures that a report states in running text, each with last year's beside it to be confused with.

Every company discloses most of them and withholds the rest in all years. A withheld one makes an unanswerable
question, so no other sentence of a report may use its ``term``.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final


@dataclass(frozen=True, slots=True)
class Metric:
    """A yearly figure. ``ask`` names it in a question; the templates take {now}, {then}, {year}, {last}.

    ``form`` shows how it is printed ("${} million"), ``places`` its decimals, ``low`` and ``high`` its range in its
    first year. ``term`` is the word that a text without this figure does not contain.
    """

    key: str
    term: str
    ask: str
    form: str
    places: int
    low: int
    high: int
    templates: tuple[str, ...]

    def show(self, value: Decimal) -> str:
        """The value as the report prints it."""
        return self.form.format(f"{value:,}")


METRICS: Final = (
    Metric("backlog", "order book", "the order book at year-end", "${} million", 1, 40, 400, (
        "The order book stood at {now} at the end of {year}; twelve months earlier it had been {then}.",
        "We ended {year} with an order book of {now}, against {then} a year before.")),
    Metric("dividend", "dividend", "the dividend per share", "${}", 2, 1, 5, (
        "The board proposes a dividend of {now} per share for {year}, after {then} for {last}.",
        "Shareholders will be asked to approve a dividend of {now} a share; for {last} they received {then}.")),
    Metric("patents", "patents", "the number of patents granted", "{}", 0, 11, 60, (
        "Our inventors were granted {now} patents in {year}, compared with {then} in {last}.",
        "The number of patents granted came to {now} in {year} and had been {then} in {last}.")),
    Metric("energy", "gigawatt-hours", "the energy use in gigawatt-hours", "{} gigawatt-hours", 1, 20, 160, (
        "All works together used {now} of energy in {year}, where {last} had taken {then}.",
        "Boilers, lamps and machines drew {now} in {year}, and {then} the year before.")),
    Metric("apprentices", "apprentices", "the number of apprentices in training", "{}", 0, 24, 160, (
        "At the end of {year} there were {now} apprentices in training, and {then} at the end of {last}.",
        "We count {now} apprentices in the training shops this December; last December we counted {then}.")),
    Metric("injuries", "lost-time injuries", "the number of lost-time injuries", "{}", 0, 12, 45, (
        "There were {now} lost-time injuries in {year}, after {then} in {last}; the board discussed each one.",)),
    Metric("satisfaction", "satisfaction score", "the customer satisfaction score", "{} points", 1, 52, 64, (
        "Customers gave us a satisfaction score of {now} in the {year} survey, and {then} in that of {last}.",)),
    Metric("delivery", "delivery time", "the average delivery time", "{} days", 1, 12, 60, (
        "The average delivery time from order to doorstep was {now} in {year}; in {last} it was {then}.",)),
    Metric("claims", "warranty claims", "the number of warranty claims", "{}", 0, 140, 1900, (
        "Workshops settled {now} warranty claims in {year}, against {then} in {last}.",)),
    Metric("capex", "capital expenditure", "capital expenditure", "${} million", 1, 9, 60, (
        "Capital expenditure came to {now} in {year}, against {then} in {last}, most of it for roofs and machines.",)),
    Metric("training", "hours of training", "the hours of training per employee", "{} hours", 1, 14, 44, (
        "Each employee received {now} of training on average in {year}, where {last} had allowed {then}; "
        "hours of training are counted in working time.",)),
    Metric("rail", "sent by rail", "the share of goods sent by rail", "{}%", 1, 18, 61, (
        "Of all goods, {now} were sent by rail in {year}; in {last} the share was {then}.",)),
    Metric("trees", "volunteers planted", "the number of trees planted", "{}", 0, 900, 9000, (
        "Volunteers planted {now} trees in {year}, following {then} in {last}.",)),
    Metric("library", "lending library", "the number of loans from the lending library", "{} loans", 0, 1100, 8000, (
        "The works' lending library recorded {now} in {year}, after {then} in {last}; sea stories lead, as ever.",)),
    Metric("canteen", "canteen served", "the number of canteen meals served", "{} meals", 0, 40_000, 300_000, (
        "The canteen served {now} in {year} and {then} in {last}, and has not yet been forgiven for the lentils.",)),
    Metric("shareholders", "registered shareholders", "the number of registered shareholders", "{}", 0, 3000, 30_000, (
        "The share register listed {now} registered shareholders at the end of {year}, and {then} a year before.",)),
    Metric("audit", "audit fee", "the audit fee", "${} million", 2, 1, 4, (
        "The audit fee for {year} was {now}; the fee for {last} had been {then}.",)),
    Metric("water", "cubic metres", "the water use in cubic metres", "{} cubic metres", 0, 30_000, 240_000, (
        "Water use came to {now} in {year}, where {last} had needed {then}.",)),
    Metric("scrap", "scrap rate", "the scrap rate", "{}%", 2, 2, 7, (
        "The scrap rate averaged {now} in {year} and {then} in {last}.",)),
    Metric("suppliers", "audited suppliers", "the number of audited suppliers", "{}", 0, 30, 240, (
        "Inspectors added up {now} audited suppliers in {year}, where {last} had seen {then}.",)),
)  # fmt: skip

# --------
# The words of the invented world: trades with their divisions and goods, names, towns, and small human detail.
#
# A trade gives a company its line of business; everything else is drawn for all companies alike. Lists are long enough
# for hundreds of companies to differ; a reader who notices two firms with a fondness for herons has read carefully.


@dataclass(frozen=True, slots=True)
class Trade:
    """A line of business: the firms' last names, its divisions with two goods each, and what it buys and sells to."""

    key: str
    surnames: tuple[str, ...]
    divisions: tuple[tuple[str, str, str], ...]
    materials: tuple[str, ...]
    customers: tuple[str, ...]


TRADES: Final = (
    Trade(
        "instruments",
        ("Instruments", "Gauges", "Measurement"),
        (
            ("Marine Gauges", "tide gauge", "depth sounder"),
            ("Weather Stations", "barometer", "rain recorder"),
            ("Survey Optics", "theodolite", "spirit level"),
            ("Laboratory Balances", "analytical balance", "hygrometer"),
            ("Calibration Services", "calibration bench", "reference weight"),
            ("Flow Metering", "flow meter", "pressure valve"),
        ),
        ("brass", "optical glass", "quartz", "stainless wire", "silver solder"),
        ("harbour boards", "weather offices", "universities", "water companies", "lighthouse keepers"),
    ),
    Trade(
        "ovens",
        ("Ovens", "Bakery Works", "Hearth"),
        (
            ("Deck Ovens", "deck oven", "stone hearth"),
            ("Dough Handling", "spiral mixer", "dough divider"),
            ("Field Kitchens", "camp stove", "soup boiler"),
            ("Proving Rooms", "proving cabinet", "steam generator"),
            ("Confectionery Lines", "tempering kettle", "wafer iron"),
            ("Oven Services", "burner kit", "flue damper"),
        ),
        ("firebrick", "cast iron", "enamel", "soapstone", "sheet steel"),
        ("village bakers", "hospital kitchens", "ship's cooks", "railway caterers", "school canteens"),
    ),
    Trade(
        "ferries",
        ("Ferries", "Boatyards", "Packet Lines"),
        (
            ("Island Routes", "day ferry", "mail boat"),
            ("Boat Building", "pilot cutter", "workboat"),
            ("Dredging", "bucket dredger", "hopper barge"),
            ("Harbour Towage", "harbour tug", "line boat"),
            ("River Freight", "grain barge", "push boat"),
            ("Dry Dock Repairs", "slipway cradle", "floating dock"),
        ),
        ("larch", "ship's plate", "hemp rope", "copper sheathing", "marine paint"),
        ("island councils", "fish merchants", "post offices", "quarry owners", "summer visitors"),
    ),
    Trade(
        "lamps",
        ("Lamps", "Lightworks", "Lanterns"),
        (
            ("Street Lighting", "street lantern", "bollard light"),
            ("Lighthouse Optics", "rotating lens", "fog signal"),
            ("Theatre Lighting", "footlight", "follow spot"),
            ("Mine Lamps", "safety lamp", "helmet lamp"),
            ("Reading Lamps", "desk lamp", "library lamp"),
            ("Lamp Controls", "dimmer", "dusk switch"),
        ),
        ("blown glass", "tungsten", "aluminium", "porcelain", "mica"),
        ("town councils", "opera houses", "coastguards", "public libraries", "mine rescue stations"),
    ),
    Trade(
        "clocks",
        ("Clocks", "Horology", "Timekeepers"),
        (
            ("Tower Clocks", "tower clock", "carillon drive"),
            ("Railway Time", "platform clock", "master clock"),
            ("Household Clocks", "mantel clock", "alarm clock"),
            ("Ship's Chronometers", "chronometer", "deck watch"),
            ("Timing Systems", "race timer", "interval timer"),
            ("Restoration", "escapement", "clock dial"),
        ),
        ("hardened steel", "synthetic ruby", "seasoned walnut", "brass", "bell metal"),
        ("cathedral chapters", "railways", "schools", "athletics clubs", "museums"),
    ),
    Trade(
        "bicycles",
        ("Cycles", "Velocipedes", "Wheelworks"),
        (
            ("Cargo Bicycles", "cargo bicycle", "baker's tricycle"),
            ("Touring Frames", "touring bicycle", "tandem"),
            ("Hubs and Gears", "gear hub", "chainset"),
            ("Saddlery", "leather saddle", "pannier"),
            ("Children's Cycles", "balance bike", "school bicycle"),
            ("Rental Fleets", "rental bicycle", "docking stand"),
        ),
        ("chromoly tube", "saddle leather", "rubber", "aluminium", "spoke wire"),
        ("postal services", "town councils", "touring clubs", "parents", "bakeries that deliver"),
    ),
    Trade(
        "paper",
        ("Paper", "Stationers", "Mills"),
        (
            ("Writing Papers", "laid paper", "letter block"),
            ("Map Printing", "hiking map", "sea chart"),
            ("Pens and Inks", "fountain pen", "archive ink"),
            ("Bookbinding", "ledger binding", "sketchbook"),
            ("Packaging Board", "egg carton", "hat box"),
            ("Conservation Papers", "blotting board", "repair tissue"),
        ),
        ("cotton rag", "spruce pulp", "china clay", "linen thread", "gum arabic"),
        ("land registries", "archives", "hikers", "law offices", "egg farmers"),
    ),
    Trade(
        "gardens",
        ("Seeds", "Nurseries", "Orchards"),
        (
            ("Vegetable Seeds", "winter cabbage", "climbing bean"),
            ("Fruit Trees", "cider apple", "dessert pear"),
            ("Garden Tools", "grafting knife", "digging fork"),
            ("Glasshouses", "lean-to glasshouse", "cold frame"),
            ("Cut Flowers", "sweet pea", "show dahlia"),
            ("Irrigation", "drip line", "rain barrel"),
        ),
        ("peat-free compost", "ash handles", "horticultural glass", "terracotta", "bast"),
        ("market gardeners", "allotment societies", "cider makers", "palace gardens", "florists"),
    ),
)


def _words(text: str) -> tuple[str, ...]:
    """The words of a text, one entry each."""
    return tuple(text.split())


_WOMEN: Final = _words("""
    Agnes Beatrix Clara Delphine Edith Frida Greta Hanna Ingrid Josefine Katarina Leonie Marguerite Nadia
    Odile Paloma Ruth Sabine Thea Ursula Vera Wilhelmina Yvonne Zelda Amara Bronwen Chiara Dagny Esme Fatima
""")
_MEN: Final = _words("""
    Anselm Bertram Caspar Dorian Emil Frederik Gideon Henrik Isidor Jasper Konrad Leopold Magnus Nils Oskar
    Piers Quentin Rafael Silas Tobias Ulrich Valentin Wendell Xaver Yusuf Ambrose Bruno Cormac Desmond Elias
""")
FIRST_NAMES: Final = {"she": _WOMEN, "he": _MEN}
LAST_NAMES: Final = _words("""
    Abernathy Almqvist Ashdown Bellamy Birkeland Bramwell Castellan Chevalier Cordingley Dahlberg Devereux
    Drummond Ekwueme Ellery Fairweather Falkner Ferreira Garrick Gillespie Goldfinch Halloran Harkness
    Heatherington Ibsen Ingleby Jablonski Jorgensen Kestrel Kilbride Kowalczyk Lachlan Lindqvist Lovelace
    Maccabee Marchbanks Montrose Nakamura Nettleship Norwood Okafor Oldcastle Osterberg Pemberton Pettigrew
    Prendergast Quillfeather Quist Ravenscroft Rosenthal Rowntree Sandoval Silverthorne Stavros Tamblyn
    Thistlewood Trevelyan Underhill Urquhart Vandermeer Vasquez Vinter Wainwright Wetherby Winterbourne Yarrow
    Yelland Zabriskie Zimmer Applegarth Bonaventure Crowhurst Dunmore Everard Fothergill Greenacre Hollingbery
    Kirkbride Larkspur Merriweather Northcote
""")
HOUSES: Final = _words("""
    Tidewater Alderbrook Northgate Copperfield Merrow Saltmarsh Larkhill Windermoor Ironbridge Foxglove
    Harbinger Quayside Brightwell Stonecrop Meadowsweet Kingfisher Pendrift Oakhaven Silverline Thornbury
    Wayfarer Lockhart Candlewick Greywater Hartfield Juniper Marlstone Nightingale Osprey Pebblebrook
    Ravensmoor Seabright Tamarind Underwood Valewind Westering Yarrowdale Ambergate Bellweather Cloudberry
    Driftwood Eastlight Fernhill Goldcrest Hollowell Inkerman Jessamine Kelpie Lanternhill Millrace Netherby
    Oldcurlew Plumtree Rookwood Sandpiper
""")
TOWNS: Final = _words("""
    Aldermouth Bexcombe Carrowbridge Dunsea Eastermere Fallowfield Gullhaven Harrowick Inchmoor Kettlewick
    Lambsferry Maplestead Nether-Warren Orlestone Pellworth Quernmouth Rushholm Skerrybay Tolland Uphallow
    Vennmoor Wickersea Yarncliffe Zealand-Cross Ashbeck Brindleford Coldharbour Dovermoor Elverton
    Finchley-Sands Grimsdale Hazelport Ivelwater Larchmont Mossgate Northey Oxenholm Pikesburn Redscar
    Stavering Thrushcombe Ullsby Weirhead Withernside
""")
STEMS: Final = _words("""
    Heron Plover Juniper Magpie Comet Almanac Bramble Sexton Marigold Pilgrim Badger Dowager Swift Tinder
    Cormorant Vesper Hazel Otter Minuet Parson Sorrel Gannet Tempest Clover Admiral Wren Quarto Linnet Harvest
    Beacon Thimble Rowan Sparrow Meridian Curlew Anchor Dandelion Falcon Nocturne Pepper
""")
PASTIMES: Final = (
    "keeps bees on the office roof", "plays the bassoon in the works orchestra", "restores wooden dinghies",
    "breeds runner ducks", "has walked every footpath in the county", "umpires village cricket",
    "bakes rye bread for the night shift", "rings bells at the parish tower", "collects station timetables",
    "sings alto in the fire brigade choir", "repairs typewriters", "grows prize leeks", "teaches chess on Thursdays",
    "swims in the harbour on New Year's Day", "is writing a history of the sandwich", "flies kites competitively",
    "translates sea shanties", "edits the works newspaper", "keeps the county's rainfall records", "races pigeons",
)  # fmt: skip
FORMER_POSTS: Final = (
    "head of purchasing", "foundry engineer", "assistant treasurer", "shop-floor planner", "export manager",
    "night-shift supervisor", "chief draughtsman", "quality inspector", "company secretary", "service engineer",
)  # fmt: skip
SUBJECTS: Final = (
    "mechanical engineering", "accountancy", "mathematics", "naval architecture", "chemistry", "economic history",
    "law", "metallurgy", "geography", "philosophy",
)  # fmt: skip
LANDMARKS: Final = (
    "beside the old salt store", "under the railway viaduct", "on the site of a former rope walk",
    "opposite the fish market", "in a converted tram depot", "behind the bandstand", "next to the canal basin",
    "at the foot of the lighthouse road", "between the brewery and the chapel", "on reclaimed marsh",
)  # fmt: skip
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
REGIONS: Final = ("Home counties", "Northern isles", "Continent", "Overseas")

# --------
# A company's accounts, year by year, in whole thousands of dollars, with every identity kept.
#
# Revenue is the same number whether read by segment, quarter or region; the balance sheet balances; the cash flow ends
# at the cash of the balance sheet.

_YEARS = 4


@dataclass(frozen=True, slots=True)
class Accounts:
    """One year. Expenses and outflows are negative; ``employees`` are heads by site town."""

    segments: Mapping[str, int]
    other: int
    quarters: tuple[int, int, int, int]
    regions: Mapping[str, int]
    income: Mapping[str, int]
    balance: Mapping[str, int]
    cash_flow: Mapping[str, int]
    employees: Mapping[str, int]

    @property
    def revenue(self) -> int:
        """Total revenue: segments and other."""
        return sum(self.segments.values()) + self.other


def _split(rng: random.Random, total: int, parts: int) -> list[int]:
    """``total`` in uneven whole parts that sum to it."""
    weights = [rng.uniform(0.7, 1.3) for _ in range(parts)]
    amounts = [int(total * weight / sum(weights)) for weight in weights[1:]]
    return [total - sum(amounts), *amounts]


def draw_accounts(
    rng: random.Random, first_year: int, segments: Sequence[str], towns: Sequence[str]
) -> dict[int, Accounts]:
    """Four years of accounts from ``first_year`` on (the first of them only ever appears as a comparison)."""
    sales = {name: rng.randint(18_000, 190_000) for name in segments}
    heads = {town: rng.randint(90, 900) for town in towns}
    cash, balance = rng.randint(9_000, 60_000), _Balance(rng, sum(sales.values()))
    accounts = {}
    for year in range(first_year, first_year + _YEARS):
        sales = {name: int(amount * _step(rng, 0.02, 0.19)) for name, amount in sales.items()}
        heads = {town: int(count * _step(rng, 0.01, 0.12)) + 1 for town, count in heads.items()}
        other = -rng.randint(400, 3_000)
        revenue = sum(sales.values()) + other
        income = _income(rng, revenue)
        opening, cash = cash, int(cash * _step(rng, 0.03, 0.3))
        accounts[year] = Accounts(
            dict(sales),
            other,
            (lambda q: (q[0], q[1], q[2], q[3]))(_split(rng, revenue, 4)),
            dict(zip(REGIONS, _split(rng, revenue, 4), strict=True)),
            income,
            balance.draw(cash, revenue),
            _cash_flow(rng, sum(income.values()), opening, cash, revenue),
            dict(heads),
        )
    return accounts


def _step(rng: random.Random, low: float, high: float) -> float:
    """A factor of change: up twice as often as down, by ``low`` to ``high``."""
    return 1 + rng.choice((1, 1, -1)) * rng.uniform(low, high)


def _income(rng: random.Random, revenue: int) -> dict[str, int]:
    shares = {
        "Cost of goods sold": rng.uniform(0.52, 0.62),
        "Selling and administration": rng.uniform(0.14, 0.19),
        "Research and development": rng.uniform(0.03, 0.08),
        "Interest expense": rng.uniform(0.005, 0.02),
        "Income tax": rng.uniform(0.015, 0.03),
    }
    return {"Revenue": revenue} | {label: -int(revenue * share) for label, share in shares.items()}


def _cash_flow(rng: random.Random, earned: int, opening: int, closing: int, revenue: int) -> dict[str, int]:
    flow = {
        "Net income": earned,
        "Depreciation": int(revenue * rng.uniform(0.03, 0.05)),
        "Purchase of machines": -int(revenue * rng.uniform(0.03, 0.06)),
        "Loans repaid": -int(revenue * rng.uniform(0.005, 0.02)),
        "Paid to shareholders": -int(revenue * rng.uniform(0.005, 0.02)),
    }
    flow["Change in working capital"] = closing - opening - sum(flow.values())
    return flow | {"Cash at the start": opening, "Cash at the end": closing}


class _Balance:
    """Draws balance sheets whose two sides agree; equity is what is left."""

    def __init__(self, rng: random.Random, revenue: int) -> None:
        self._rng = rng
        self._base = revenue

    def _of(self, low: float, high: float) -> int:
        return int(self._base * self._rng.uniform(low, high))

    def draw(self, cash: int, revenue: int) -> dict[str, int]:
        self._base = revenue
        sheet = {
            "Cash": cash,
            "Receivables": self._of(0.11, 0.18),
            "Inventories": self._of(0.1, 0.2),
            "Land and buildings": self._of(0.2, 0.35),
            "Machines": self._of(0.12, 0.25),
            "Goodwill": self._of(0.02, 0.09),
        }
        owed = {
            "Payables": self._of(0.07, 0.12),
            "Short-term loans": self._of(0.02, 0.08),
            "Long-term loans": self._of(0.1, 0.2),
            "Pensions": self._of(0.03, 0.08),
        }
        return sheet | owed | {"Equity": sum(sheet.values()) - sum(owed.values())}


# --------
# The invented companies behind the reports: who works there, what is made where, and every yearly figure.
#
# A company is drawn from a seed of its own, ``"{seed}/{index}"``, so that its people, goods and figures are the same
# in a small sample and in a large one (only the other firms that it knows depend on who else is there), and its 2022
# figures in the 2023 report are those of the 2022 report.

_SEGMENTS, _SITES, _DISCLOSED = 4, 5, 13  # ours: enough for distractors, few enough for a report of 1,500 words
_FIRST_YEAR_RANGE = (2019, 2023)


@dataclass(frozen=True, slots=True)
class Person:
    """Someone with a name and a past. ``former_firm`` may be another company of the archive."""

    name: str
    pronoun: str
    joined: int
    former_post: str
    former_firm: str
    subject: str
    school_town: str
    pastime: str


@dataclass(frozen=True, slots=True)
class Site:
    """A works: one town, one manager, one opening year."""

    town: str
    manager: str
    opened: int
    landmark: str


@dataclass(frozen=True, slots=True)
class Product:
    """Something made at one site for one segment, e.g. "Heron barometer"."""

    name: str
    noun: str
    segment: str
    site: Site


@dataclass(frozen=True, slots=True)
class Segment:
    """A division with its head and its two products."""

    name: str
    head: Person
    products: tuple[Product, Product]


@dataclass(frozen=True, slots=True)
class Company:
    """A firm with everything that its reports draw on. ``years`` are the years it reports on."""

    name: str
    slug: str
    trade: Trade
    town: str
    founded: int
    founder: str
    chief: Person
    treasurer: Person
    segments: tuple[Segment, ...]
    sites: tuple[Site, ...]
    years: tuple[int, ...]
    disclosed: tuple[Metric, ...]
    withheld: tuple[Metric, ...]
    figures: Mapping[tuple[str, int], Decimal]
    accounts: Mapping[int, Accounts]
    peers: tuple[str, ...]

    @property
    def products(self) -> tuple[Product, ...]:
        """All products, segment by segment."""
        return tuple(product for segment in self.segments for product in segment.products)

    @property
    def officers(self) -> tuple[Person, ...]:
        """The chief executive, the treasurer and the heads of the segments: everyone with a biography."""
        return (self.chief, self.treasurer, *(segment.head for segment in self.segments))

    def doc_id(self, year: int) -> str:
        """The id of the report on that year, e.g. "tidewater-instruments-2023"."""
        return f"{self.slug}-{year}"


def company_names(count: int, seed: int) -> tuple[tuple[str, Trade], ...]:
    """Distinct names with their trades; two houses join ("Merrow & Larkhill Clocks") once the single ones run out."""
    rng = random.Random(f"{seed}/names")
    chosen: dict[str, Trade] = {}
    single = len(HOUSES) * len(TRADES) // 2
    while len(chosen) < count:
        trade = TRADES[len(chosen) % len(TRADES)]
        house = " & ".join(rng.sample(HOUSES, k=1 if len(chosen) < single else 2 + len(chosen) // 40_000))
        chosen.setdefault(f"{house} {rng.choice(trade.surnames)}", trade)
    return tuple(chosen.items())


def draw_company(index: int, names: tuple[tuple[str, Trade], ...], seed: int) -> Company:
    """The company at ``index`` of ``names``, with two years to report on."""
    rng = random.Random(f"{seed}/{index}")
    name, trade = names[index]
    slug = name.lower().replace(" & ", "-").replace(" ", "-")
    last_names = rng.sample(LAST_NAMES, k=2 + _SEGMENTS + _SITES + 1)
    towns = rng.sample(TOWNS, k=_SITES + 1)
    acquaintance = random.Random(f"{seed}/{index}/peers")
    peers = tuple(other for other, _ in acquaintance.sample(names, k=min(4, len(names))) if other != name)
    first_year = rng.randint(*_FIRST_YEAR_RANGE)
    founded = rng.randint(1841, 1968)

    def full_name(last: str) -> tuple[str, str]:
        pronoun = rng.choice(("she", "he"))
        return f"{rng.choice(FIRST_NAMES[pronoun])} {last}", pronoun

    firms = [*peers, *(f"{house} & Daughters" for house in acquaintance.sample(HOUSES, k=6))]
    schools = rng.sample([town for town in TOWNS if town not in towns], k=2 + _SEGMENTS)
    joined = rng.sample(range(first_year - 30, first_year - 1), k=2 + _SEGMENTS)
    pastimes = rng.sample(PASTIMES, k=2 + _SEGMENTS)

    def person(place: int) -> Person:
        known, pronoun = full_name(last_names.pop())
        post, firm, subject = rng.choice(FORMER_POSTS), acquaintance.choice(firms), rng.choice(SUBJECTS)
        return Person(known, pronoun, joined[place], post, firm, subject, schools[place], pastimes[place])

    landmarks = rng.sample(LANDMARKS, k=_SITES)
    opened = rng.sample(range(max(founded + 2, 1890), first_year - 3), k=_SITES)
    sites = tuple(
        Site(town, full_name(last_names.pop())[0], year, landmark)
        for town, year, landmark in zip(towns[1:], opened, landmarks, strict=True)
    )
    divisions = rng.sample(trade.divisions, k=_SEGMENTS)
    stems = rng.sample(STEMS, k=2 * _SEGMENTS)
    placed = [sites[number % _SITES] for number in range(2 * _SEGMENTS)]
    rng.shuffle(placed)
    segments = []
    for place, (division, *nouns) in enumerate(divisions):
        goods = [
            Product(f"{stems[2 * place + at]} {noun}", noun, division, placed[2 * place + at])
            for at, noun in enumerate(nouns)
        ]
        segments.append(Segment(division, person(2 + place), (goods[0], goods[1])))
    metrics = rng.sample(METRICS, k=len(METRICS))
    years = (first_year, first_year + 1)
    figures = _draw_figures(rng, first_year - 1)
    accounts = draw_accounts(rng, first_year - 2, [s.name for s in segments], [s.town for s in sites])
    return Company(
        name, slug, trade, towns[0], founded, full_name(last_names.pop())[0], person(0), person(1), tuple(segments),
        sites, years, tuple(metrics[:_DISCLOSED]), tuple(metrics[_DISCLOSED:]), figures, accounts, peers,
    )  # fmt: skip


def _draw_figures(rng: random.Random, first_year: int) -> dict[tuple[str, int], Decimal]:
    """Each metric for three years; every year differs from the one before by 3 to 24 %."""
    figures = {}
    for metric in METRICS:
        value = Decimal(str(round(rng.uniform(metric.low, metric.high), metric.places + 2)))
        for year in range(first_year, first_year + 3):
            figures[metric.key, year] = round(value, metric.places) if metric.places else Decimal(round(value))
            change = Decimal(str(round(rng.choice((-1, 1, 1)) * rng.uniform(0.1, 0.24), 3)))
            value *= 1 + change
    return figures


# --------
# What befell a company in one year: why its segments grew or shrank, three projects, a recall, a storm, its risks.

_RISES: Final = (
    "two long contracts with {customers} began in spring", "a competitor gave up its works and sent its customers on",
    "the price list was raised for the first time in four years", "a second shift was added at {town}",
    "the {product} was redesigned so that one person can carry it", "repairs were brought back into the house",
    "a wet summer kept buyers indoors and reading catalogues", "exhibitions abroad brought new dealers",
    "stocks of {material} had been bought before its price went up", "spare parts were sold by telephone",
)  # fmt: skip
_FALLS: Final = (
    "a strike of the carters held up deliveries for five weeks", "{customers} put off their purchases to next year",
    "{material} was scarce from the summer on", "the move to a new hall at {town} took a month longer than planned",
    "a cheaper imitation of the {product} came on the market", "two dealers closed their shops",
    "the old {product} was taken off the list before its successor was ready", "freight rates doubled by autumn",
    "the largest tender of the year was lost by a narrow margin", "a mild winter left the shelves full",
)  # fmt: skip
_PROJECTS: Final = (
    ("Warm Roof", "insulating the halls"), ("Quiet Floor", "setting the presses on cork"),
    ("Second Kettle", "using waste heat twice"), ("Short Road", "moving stores next to the benches"),
    ("Blue Thread", "marking each part with its maker's initials"), ("Open Drawer", "sharing tools between works"),
    ("Night Owl", "running the long jobs after dark"), ("Paper Boat", "replacing printed orders"),
    ("Green Lane", "a towpath for cargo bicycles"), ("Small Hammer", "mending machines before they break"),
    ("Clear Water", "filtering the rinsing baths"), ("Long Table", "one planning meeting for all works"),
)  # fmt: skip
_FAULTS: Final = (
    ("a seal that shrank in frost", "fitted a thicker seal free of charge"),
    ("a batch of screws with the wrong thread", "sent every owner a packet of new screws and a screwdriver"),
    ("a varnish that turned sticky in the sun", "stripped and revarnished each piece"),
    ("a label that gave the load in the wrong unit", "printed new labels in both units"),
    ("a spring that lost its temper", "replaced the spring and now tests each one for a week"),
    ("a hinge that squeaked at the pitch of a fire alarm", "greased, and later replaced, every hinge"),
)  # fmt: skip
_STORMS: Final = (
    ("flood", "The river stood {n} inches deep in the packing hall", "carried the drawings upstairs in bakers' trays"),
    ("gale", "Half of the north roof was found in the next parish", "stretched sailcloth over the machines"),
    ("snowfall", "No lorry passed the hill for {n} days", "took finished goods to the station on sledges"),
    ("lightning strike", "The transformer burned for {n} hours", "borrowed a generator from a travelling circus"),
)  # fmt: skip
_RECOVERIES: Final = (
    "moved urgent orders to {town}", "paid everyone full wages while the works stood still",
    "dried the motors in a laundry", "opened an office in the chapel hall", "asked pensioners back to help",
)  # fmt: skip
_RISKS: Final = (
    ("the price of {material}", "buys half of its needs a year ahead", "keeps three months of stock at {town}"),
    ("the loss of skilled hands", "pays for evening classes", "lets retiring foremen stay on two days a week"),
    ("dependence on {customers}", "sells no more than a fifth of any product to one buyer", "visits fairs abroad"),
    ("foreign currency", "bills in its own currency where it can", "sells the rest forward for six months"),
    ("fire in the works", "has sprinklers in all halls", "stores copies of all drawings in another town"),
    ("breaches of its computers", "keeps its machines off the public network", "rehearses a day without screens"),
    ("rising water", "has raised the switch rooms by a metre", "insures the works at {town} against floods"),
    ("late payment", "checks new buyers with two banks", "stops deliveries after sixty days"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Project:
    """An improvement with its leader, its works and what it saves each year (millions of dollars)."""

    name: str
    purpose: str
    leader: Person
    site: Site
    saving: Decimal


@dataclass(frozen=True, slots=True)
class Recall:
    """A product called back: when, for what fault, and what was done."""

    product: Product
    month: str
    fault: str
    remedy: str
    pieces: int


@dataclass(frozen=True, slots=True)
class Storm:
    """A mishap at a works in three beats: what happened, the first help, the recovery."""

    kind: str
    site: Site
    month: str
    damage: str
    first_help: str
    recovery: str


@dataclass(frozen=True, slots=True)
class Risk:
    """A risk with the two measures taken against it."""

    name: str
    measures: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Events:
    """A company's year. ``causes`` holds two reasons for each segment's rise or fall."""

    causes: Mapping[str, tuple[str, str]]
    projects: tuple[Project, ...]
    recall: Recall
    storm: Storm
    risks: tuple[Risk, ...]


def rose(company: Company, segment: str, year: int) -> bool:
    """Whether the segment sold more than the year before."""
    return company.accounts[year].segments[segment] > company.accounts[year - 1].segments[segment]


def draw_events(company: Company, year: int, seed: int) -> Events:
    """The year's events, the same whenever the same company and year are asked for."""
    rng = random.Random(f"{seed}/{company.slug}/{year}")
    used: set[str] = set()

    def fill(template: str, product: Product | None = None) -> str:
        item = product or rng.choice(company.products)
        material, customers = rng.choice(company.trade.materials), rng.choice(company.trade.customers)
        return template.format(
            customers=customers, material=material, town=rng.choice(company.sites).town, product=item.name,
            n=rng.randint(3, 19),
        )  # fmt: skip

    causes = {}
    for segment in company.segments:
        pool = [each for each in (_RISES if rose(company, segment.name, year) else _FALLS) if each not in used]
        first, second = rng.sample(pool, k=2)
        used |= {first, second}
        causes[segment.name] = (fill(first, segment.products[0]), fill(second, segment.products[1]))
    leaders = rng.sample([segment.head for segment in company.segments] + [company.treasurer], k=3)
    # Even and odd years share no project name, so the two reports of a company never tell of the same project.
    projects = tuple(
        Project(name, purpose, leader, rng.choice(company.sites), Decimal(rng.randint(3, 48)).scaleb(-1))
        for (name, purpose), leader in zip(rng.sample(_PROJECTS[year % 2 :: 2], k=3), leaders, strict=True)
    )
    fault, remedy = rng.choice(_FAULTS)
    recall = Recall(rng.choice(company.products), rng.choice(MONTHS), fault, remedy, rng.randint(120, 4_800))
    kind, damage, first_help = rng.choice(_STORMS)
    site = rng.choice(company.sites)
    elsewhere = rng.choice([each.town for each in company.sites if each is not site])
    recovery = rng.choice(_RECOVERIES).format(town=elsewhere)
    storm = Storm(kind, site, rng.choice(MONTHS), fill(damage), first_help, recovery)
    risks = tuple(Risk(fill(name), (fill(first), fill(second))) for name, first, second in rng.sample(_RISKS, k=3))
    return Events(causes, projects, recall, storm, risks)
