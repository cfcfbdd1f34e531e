"""The words of the invented world: trades with their divisions and goods, names, towns, and small human detail.

A trade gives a company its line of business; everything else is drawn for all companies alike. Lists are long enough
for hundreds of companies to differ; a reader who notices two firms with a fondness for herons has read carefully.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


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
