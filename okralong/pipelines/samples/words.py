"""The words of the invented world: what companies make, who works there, what befalls them, and how reports tell of it.

Lists are long enough for hundreds of companies to differ; a reader who notices two firms with a fondness for herons has
read carefully. In templates ``[a|b]`` is a choice and ``{slot}`` is filled by ``expand`` in ``text.py``.
"""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class Trade:
    """A line of business: the firms' last names, its divisions with two goods each, and what it buys and sells to."""

    key: str
    surnames: tuple[str, ...]
    divisions: tuple[tuple[str, str, str], ...]
    materials: tuple[str, ...]
    customers: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    """The words of a text, one entry each."""
    return tuple(text.split())


# --------
# Companies: figures that reports state in running text, trades, and names. Each figure has last year's beside it to be
# confused with. Every company discloses most of them and withholds the rest in all years; a withheld one makes an
# unanswerable question, so no other sentence of a report may use its ``term``.

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

TRADES: Final = (
    Trade("instruments", ("Instruments", "Gauges", "Measurement"), (
        ("Marine Gauges", "tide gauge", "depth sounder"), ("Weather Stations", "barometer", "rain recorder"),
        ("Survey Optics", "theodolite", "spirit level"), ("Laboratory Balances", "analytical balance", "hygrometer"),
        ("Calibration Services", "calibration bench", "reference weight"),
        ("Flow Metering", "flow meter", "pressure valve")),
        ("brass", "optical glass", "quartz", "stainless wire", "silver solder"),
        ("harbour boards", "weather offices", "universities", "water companies", "lighthouse keepers")),
    Trade("ovens", ("Ovens", "Bakery Works", "Hearth"), (
        ("Deck Ovens", "deck oven", "stone hearth"), ("Dough Handling", "spiral mixer", "dough divider"),
        ("Field Kitchens", "camp stove", "soup boiler"), ("Proving Rooms", "proving cabinet", "steam generator"),
        ("Confectionery Lines", "tempering kettle", "wafer iron"), ("Oven Services", "burner kit", "flue damper")),
        ("firebrick", "cast iron", "enamel", "soapstone", "sheet steel"),
        ("village bakers", "hospital kitchens", "ship's cooks", "railway caterers", "school canteens")),
    Trade("ferries", ("Ferries", "Boatyards", "Packet Lines"), (
        ("Island Routes", "day ferry", "mail boat"), ("Boat Building", "pilot cutter", "workboat"),
        ("Dredging", "bucket dredger", "hopper barge"), ("Harbour Towage", "harbour tug", "line boat"),
        ("River Freight", "grain barge", "push boat"), ("Dry Dock Repairs", "slipway cradle", "floating dock")),
        ("larch", "ship's plate", "hemp rope", "copper sheathing", "marine paint"),
        ("island councils", "fish merchants", "post offices", "quarry owners", "summer visitors")),
    Trade("lamps", ("Lamps", "Lightworks", "Lanterns"), (
        ("Street Lighting", "street lantern", "bollard light"), ("Lighthouse Optics", "rotating lens", "fog signal"),
        ("Theatre Lighting", "footlight", "follow spot"), ("Mine Lamps", "safety lamp", "helmet lamp"),
        ("Reading Lamps", "desk lamp", "library lamp"), ("Lamp Controls", "dimmer", "dusk switch")),
        ("blown glass", "tungsten", "aluminium", "porcelain", "mica"),
        ("town councils", "opera houses", "coastguards", "public libraries", "mine rescue stations")),
    Trade("clocks", ("Clocks", "Horology", "Timekeepers"), (
        ("Tower Clocks", "tower clock", "carillon drive"), ("Railway Time", "platform clock", "master clock"),
        ("Household Clocks", "mantel clock", "alarm clock"), ("Ship's Chronometers", "chronometer", "deck watch"),
        ("Timing Systems", "race timer", "interval timer"), ("Restoration", "escapement", "clock dial")),
        ("hardened steel", "synthetic ruby", "seasoned walnut", "brass", "bell metal"),
        ("cathedral chapters", "railways", "schools", "athletics clubs", "museums")),
    Trade("bicycles", ("Cycles", "Velocipedes", "Wheelworks"), (
        ("Cargo Bicycles", "cargo bicycle", "baker's tricycle"), ("Touring Frames", "touring bicycle", "tandem"),
        ("Hubs and Gears", "gear hub", "chainset"), ("Saddlery", "leather saddle", "pannier"),
        ("Children's Cycles", "balance bike", "school bicycle"), ("Rental Fleets", "rental bicycle", "docking stand")),
        ("chromoly tube", "saddle leather", "rubber", "aluminium", "spoke wire"),
        ("postal services", "town councils", "touring clubs", "parents", "bakeries that deliver")),
    Trade("paper", ("Paper", "Stationers", "Mills"), (
        ("Writing Papers", "laid paper", "letter block"), ("Map Printing", "hiking map", "sea chart"),
        ("Pens and Inks", "fountain pen", "archive ink"), ("Bookbinding", "ledger binding", "sketchbook"),
        ("Packaging Board", "egg carton", "hat box"), ("Conservation Papers", "blotting board", "repair tissue")),
        ("cotton rag", "spruce pulp", "china clay", "linen thread", "gum arabic"),
        ("land registries", "archives", "hikers", "law offices", "egg farmers")),
    Trade("gardens", ("Seeds", "Nurseries", "Orchards"), (
        ("Vegetable Seeds", "winter cabbage", "climbing bean"), ("Fruit Trees", "cider apple", "dessert pear"),
        ("Garden Tools", "grafting knife", "digging fork"), ("Glasshouses", "lean-to glasshouse", "cold frame"),
        ("Cut Flowers", "sweet pea", "show dahlia"), ("Irrigation", "drip line", "rain barrel")),
        ("peat-free compost", "ash handles", "horticultural glass", "terracotta", "bast"),
        ("market gardeners", "allotment societies", "cider makers", "palace gardens", "florists")),
)  # fmt: skip
"""A trade gives a company its line of business; everything else is drawn for all companies alike."""

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
# Events: why segments grow or shrink, projects, a recall, a mishap, risks.

RISES: Final = (
    "two long contracts with {customers} began in spring", "a competitor gave up its works and sent its customers on",
    "the price list was raised for the first time in four years", "a second shift was added at {town}",
    "the {product} was redesigned so that one person can carry it", "repairs were brought back into the house",
    "a wet summer kept buyers indoors and reading catalogues", "exhibitions abroad brought new dealers",
    "stocks of {material} had been bought before its price went up", "spare parts were sold by telephone",
)  # fmt: skip
FALLS: Final = (
    "a strike of the carters held up deliveries for five weeks", "{customers} put off their purchases to next year",
    "{material} was scarce from the summer on", "the move to a new hall at {town} took a month longer than planned",
    "a cheaper imitation of the {product} came on the market", "two dealers closed their shops",
    "the old {product} was taken off the list before its successor was ready", "freight rates doubled by autumn",
    "the largest tender of the year was lost by a narrow margin", "a mild winter left the shelves full",
)  # fmt: skip
PROJECTS: Final = (
    ("Warm Roof", "insulating the halls"), ("Quiet Floor", "setting the presses on cork"),
    ("Second Kettle", "using waste heat twice"), ("Short Road", "moving stores next to the benches"),
    ("Blue Thread", "marking each part with its maker's initials"), ("Open Drawer", "sharing tools between works"),
    ("Night Owl", "running the long jobs after dark"), ("Paper Boat", "replacing printed orders"),
    ("Green Lane", "a towpath for cargo bicycles"), ("Small Hammer", "mending machines before they break"),
    ("Clear Water", "filtering the rinsing baths"), ("Long Table", "one planning meeting for all works"),
)  # fmt: skip
FAULTS: Final = (
    ("a seal that shrank in frost", "fitted a thicker seal free of charge"),
    ("a batch of screws with the wrong thread", "sent every owner a packet of new screws and a screwdriver"),
    ("a varnish that turned sticky in the sun", "stripped and revarnished each piece"),
    ("a label that gave the load in the wrong unit", "printed new labels in both units"),
    ("a spring that lost its temper", "replaced the spring and now tests each one for a week"),
    ("a hinge that squeaked at the pitch of a fire alarm", "greased, and later replaced, every hinge"),
)  # fmt: skip
STORMS: Final = (
    ("flood", "The river stood {n} inches deep in the packing hall", "carried the drawings upstairs in bakers' trays"),
    ("gale", "Half of the north roof was found in the next parish", "stretched sailcloth over the machines"),
    ("snowfall", "No lorry passed the hill for {n} days", "took finished goods to the station on sledges"),
    ("lightning strike", "The transformer burned for {n} hours", "borrowed a generator from a travelling circus"),
)  # fmt: skip
RECOVERIES: Final = (
    "moved urgent orders to {town}", "paid everyone full wages while the works stood still",
    "dried the motors in a laundry", "opened an office in the chapel hall", "asked pensioners back to help",
)  # fmt: skip
RISKS: Final = (
    ("the price of {material}", "buys half of its needs a year ahead", "keeps three months of stock at {town}"),
    ("the loss of skilled hands", "pays for evening classes", "lets retiring foremen stay on two days a week"),
    ("dependence on {customers}", "sells no more than a fifth of any product to one buyer", "visits fairs abroad"),
    ("foreign currency", "bills in its own currency where it can", "sells the rest forward for six months"),
    ("fire in the works", "has sprinklers in all halls", "stores copies of all drawings in another town"),
    ("breaches of its computers", "keeps its machines off the public network", "rehearses a day without screens"),
    ("rising water", "has raised the switch rooms by a metre", "insures the works at {town} against floods"),
    ("late payment", "checks new buyers with two banks", "stops deliveries after sixty days"),
)  # fmt: skip

# --------
# Templates of the sections that grow with the length of a report. They state no fact that a question asks for, and use
# no term of ``METRICS``; they do name the same goods, towns and people, which is what makes them good distractors.

CHRONICLE: Final = (
    "On {day} {month} the first {product} of the new pattern [left the benches|passed its test|was shown to "
    "{customers}] at {town}.",
    "{manager} [reports|writes|notes] that the {town} works [lost {n} hours to fog|finished {n} days ahead of "
    "plan|took on {n} hands for the season] in {month}.",
    "In {month} a delegation of {customers} [came to {town}|spent {n} hours in the halls] and [asked mostly about"
    " {material}|left with a {product} under each arm|praised the soup].",
    "[A crate|A wagon|A consignment] of {m} {noun} parts went astray on the way from {town} to {town2} and "
    "[turned up in {month}|was found by a retired postmaster|came home by bicycle].",
    "On {day} {month} {person} opened the new [gate house|tool store|drawing office|weighbridge] at {town}, [in "
    "rain|in bright sun|in a wind that took the ribbon].",
    "The {segment} people held their [spring|summer|autumn] meeting at {town2}; {n} proposals were [read "
    "aloud|pinned up|put to the vote] and {head} [promised an answer to each|wrote back within the week].",
    "{month} brought [late frost|long evenings|three weeks of drizzle|a heat wave], and the {town} works [moved "
    "its shifts to the early morning|kept its doors open until dusk|hung up its coats].",
    "A letter from {peer} [asked for a licence on the {product}|enquired after {m} {noun} castings|proposed a "
    "shared stand at the fair]; we [declined with thanks|agreed by return|are thinking it over].",
    "The clock over the {town} gate, wrong since {month}, was [set right|taken down|given to the school].",
    "{person} [addressed|visited|wrote to] the foremen at {town} about [waste of {material}|noise|overtime|the "
    "price of {material}], and {n} of them [replied in writing|stayed for tea|proposed remedies].",
    "A {noun} made at {town} [in the founder's day|{m} years ago] came back for repair in {month} and was [mended"
    " without charge|found to need only oil|put in the showcase].",
    "On {day} {month} the {town} fire company [practised on our roof|borrowed our ladder|gave a concert in the "
    "loading bay].",
    "[Nobody|Only {manager}] noticed at first that the {month} calendar of {town} had {n} Mondays; [the printer "
    "has apologised|it was kept].",
    "In {month} the {customers} of {town2} [sent a cheese|sent a bill by mistake|sent back an umbrella], [which "
    "was shared out|and received a {noun} brush in return].",
    "A film about the {product} was made at {town} over {n} days in {month}; [the lathe steals every "
    "scene|{person} is seen twice, from behind|it has been shown at {town2}].",
    "[Thieves|Jackdaws] took {m} brass caps from the yard at {town} in {month}; [{n} were found on a chimney|the "
    "fence has been mended|the rest were never missed].",
    "The yearly stocktaking at {town} found {m} more {noun} handles than the books allowed, [and one accordion|to"
    " general delight|an error of {month}].",
)  # fmt: skip

SEGMENT_DIARY: Final = (
    "{customers} [remain|are still|have become] the most faithful buyers of the {product}, [and the most "
    "exacting|though they pay late|and they tell each other].",
    "{head} [believes|told the board|has written] that {segment} [should keep to fewer goods and finish them "
    "better|needs its own drawing office|must learn to say no to small lots].",
    "The {product} [needs|takes] {n} [hours at the bench|separate operations|fittings of {material}], [two fewer "
    "than its predecessor|and a patient hand].",
    "A trial with {customers} at {town2} [ran for {n} weeks|began in {month}|was cut short by snow] and [showed "
    "that the {noun} wears well|led to a better handle|will be repeated].",
    "Dealers ask for the {noun} in [blue|green|three sizes|a left-handed form]; {segment} [has said yes|has said "
    "not yet|is making {m} on trial].",
    "[Competition|Pressure] came from {peer}, whose {noun} is [lighter|cheaper|louder] but [harder to mend|made "
    "of thinner {material}|sold without a spare].",
    "{segment} [moved its stock of spares|gave its night desk|handed its packing] to {town2}, which [saves {n} "
    "journeys a week|freed {m} square metres|pleased everyone but the drivers].",
    "[Complaints|Queries] about the {product} are answered by the people who made it; in {month} there were {n}, "
    "[most about the instructions|two of them in verse|all from one address].",
    "The catalogue of {segment} now has {m} pages, [half as many as before|an index among them|two of them "
    "pictures of the works cat].",
    "{manager} has given {segment} a bench at {town} for [odd jobs|urgent repairs|trying things that ought not to"
    " work].",
    "What {customers} value, says {head}, is [that a {noun} can be opened with a coin|that someone picks up the "
    "telephone|a promise kept to the day].",
    "Of every {m} {noun} castings, {n} were [measured twice|polished by hand|kept as samples] through the "
    "[first|second] half of the year.",
    "{segment} wrote to {m} old buyers of the {product}; {n} [wrote back|sent photographs|asked for the next size"
    " up].",
    "It was a [good|slow|curious] {month} for the {noun}: [half the lots went to {customers}|every second call "
    "came from {town2}|nothing sold until the last week and then everything].",
    "{head} [keeps a broken {noun} on the desk|answers one complaint each morning|has visited {m} buyers in "
    "person], [as a reminder|and sleeps the better for it].",
    "The instructions for the {product} now fit on [one page|a postcard]; [{n} warnings were found to be the same"
    " warning|a poet at {town} was consulted].",
    "Two of the {customers} who had gone to {peer} [came back|sent word that they might come back] in {month}, "
    "[the {noun} there having rusted|without giving a reason|and were met with coffee].",
)  # fmt: skip

WORKS_NOTES: Final = (
    "At {town} the [roof of hall {n}|heating|lift|yard drainage] was renewed [during the holidays|without a day's"
    " stop|in {month}].",
    "{manager} [walks the halls at {n} minutes past seven|has kept a diary of breakdowns since {month}|knows each"
    " lathe by its sound], and [it shows|the others have begun to copy it].",
    "The {product} line at {town} was [turned by ninety degrees|shortened by {n} metres|painted yellow], so that "
    "{material} [no longer crosses the aisle|arrives where it is used].",
    "{town} has {m} machines older than their operators, [all of them in use|two of them in love letters to the "
    "editor|and one that nobody dares to switch off].",
    "A party of {m} school children from {town2} saw the {town} works in {month} and [wrote {n} essays|asked why "
    "everything is green|went home with brass filings].",
    "The crane at {town}, rated for {n} tonnes, [was inspected|received a new cable|is to be replaced].",
    "Neighbours in {town} [complained of|have grown fond of] the [noon whistle|hammering|smell of varnish]; "
    "{manager} [met them in {month}|moved it to the far hall|sent flowers].",
    "The [stores|paint shop|tool room] of {town} kept {m} days' worth of {material}, [too much|about right|a "
    "little short of the rule].",
    "A new [press|saw|furnace|test stand] from {peer} [arrived at {town} in {month}|took {n} weeks to set up|came"
    " with a manual in four languages].",
    "Night work at {town} [ended in {month}|is now voluntary|was limited to {n} benches].",
    "The garden behind the {town} works gave {m} kilos of [plums|beans|potatoes], [shared by lot|made into "
    "jam|eaten on the spot].",
    "Since {month} {town} has [measured its draughts|weighed its sawdust|counted its keys]; {manager} [puts the "
    "figures on the door|found {m} too many].",
    "The bell at {town} that used to end the shift was [moved|muffled with {material}|lent to {town2}] and "
    "[nobody goes home late|two people have been late ever since].",
    "A swallow's nest above the {noun} bench at {town} [stopped the crane for {n} days|was left in peace until "
    "{month}|has its own entry in the plant register].",
    "{town} and {town2} [share a lorry|exchange foremen|compare tea] every {n} weeks, [which began as an "
    "economy|and each claims to have gained].",
    "Of the {m} windows at {town}, {n} were [puttied anew|opened for the first time in years|exchanged for double"
    " glass] in {month}.",
)  # fmt: skip

RISK_NOTES: Final = (
    "Should {material} [become scarce|double in price], the {product} would [cost about {n} percent more to "
    "make|have to be redesigned|be made in smaller lots].",
    "The board [discussed|took up] {month}'s failure of a supplier of {material} and [asked for a second "
    "source|found the stock sufficient|thanked the buyers for their calm].",
    "An exercise at {town} in {month} [assumed|pretended] that the {noun} drawings were lost; {manager}'s people "
    "[rebuilt them in {n} days|found {m} copies].",
    "If {customers} were to [buy abroad|delay their orders|pay by barter], {segment} would feel it within {n} weeks.",
    "{peer} may [lower its prices|bring out a {noun} of its own|court our dealers]; we [watch this|cannot prevent"
    " it|would rather be copied than ignored].",
    "Insurance covers the halls at {town} but not [the wait for new machines|spoiled {material}|the patience of "
    "{customers}].",
    "The road between {town} and {town2} floods [every {n} years|whenever it likes]; goods then [go by the "
    "hill|wait|travel by boat].",
    "{person} keeps a list of {m} small dangers, [from loose carpets to loose talk|ranked by cost|read out each "
    "{month}].",
    "No law suit is known that could [cost more than {n} days of trade|stop the {product}]; one about [a right of"
    " way at {town}|a borrowed trademark] goes on.",
    "Rules for {material} are likely to [tighten|change again]; {segment} has [a substitute in trial|written to "
    "the ministry|set aside {n} benches for tests].",
    "What would happen if {town} could not be reached for {n} days? {manager} [has tried it|has an answer in a "
    "sealed envelope|keeps a boat].",
    "A single [mould|gauge|spring winder] at {town} shapes every {noun}; [a twin is being made|its twin lies at "
    "{town2}|it is wrapped in flannel at night].",
    "{person} warned in {month} that [cheap money makes dear habits|a full store is also a debt|{customers} do "
    "not stay for ever]; the minutes record [agreement|silence, then agreement].",
    "We hold that the risk of [frost|mould|forged spare parts] for the {product} is [small|smaller than it "
    "was|worth {n} tests a year].",
)  # fmt: skip

PEOPLE_NOTES: Final = (
    "{manager} [celebrated {n} years in the post|received the long-service watch|taught a Saturday course] at "
    "{town}, and [a cake in the shape of a {noun} was cut|speeches were kept short].",
    "The works council at {town} [met {n} times|settled {n} questions], [most about shift rosters|chiefly about "
    "parking and soup|among them the length of the tea break].",
    "In {month} {m} people from {town} [changed places for a week|went] with colleagues at {town2}, [to see how "
    "the other half files|and came back with ideas about {material}].",
    "{person} [gave|read] a talk on [debt|the history of the {noun}|how to read a balance sheet] to {m} listeners"
    " at {town2}.",
    "The football side of {town} [lost to|beat|drew with] that of {peer} by [a goal|two goals|the toss of a coin]"
    " in {month}.",
    "A suggestion from the {product} bench, to [store {material} upright|number the drawers|warm the glue "
    "overnight], [saved {n} minutes a piece|won the yearly prize|was so simple that nobody had dared].",
    "Wages were raised in {month} by [agreement|a rule of two parts], and {n} grades became [fewer|clearer].",
    "The orchestra of the {town} works [performed on the quay|toured the {town2} old people's homes|lost its "
    "bassoon], with {person} [in the front row|turning pages].",
    "Nursery places at {town} now number {m}, [each with a hook and a picture of a {noun}|after {n} were added].",
    "{n} retired hands came back to {town} [to teach filing|for the {month} rush|because they missed the noise].",
    "{month} saw the [wedding|retirement|return] of a well-loved {noun} fitter at {town}, with {m} guests and [no"
    " speeches|three speeches|a brass band].",
    "The works newspaper of {town} [printed {n} recipes|ran a serial about a lost {noun}|held a contest for the "
    "worst pun on {material}] and [sold out|was read aloud at {town2}].",
    "{person} and {n} others [cycled|walked|rowed] from {town} to {town2} in {month} [for the hospital fund|on a "
    "wager|and took the bus home].",
    "Of those who left {town} in the year, {n} [went to {peer}|went to sea|set up on their own], and [some have "
    "asked to return|all were given a {noun}].",
    "At {town} the [left-handed|short-sighted|tall] among the staff now have [benches of their own|a say in the "
    "buying of tools], thanks to {manager}.",
)  # fmt: skip

RESEARCH_NOTES: Final = (
    "The laboratory tested [{n} grades of {material}|{material} from {n} makers] for the {product} and [kept "
    "one|kept two|rejected them all].",
    "A {noun} was run for {m} days without [oil|rest|supervision] at {town}; it [stopped on day {n}|outlasted its"
    " bench|is still running].",
    "With {peer} we [share|shared until {month}] a test stand for {noun} parts at {town2}, [and the electricity "
    "bill|and not a word about prices].",
    "{head} set {segment} the task of [halving the parts|removing every glued joint|making the case from "
    "{material}]; [{n} sketches exist|the first model squeaks|a verdict is due by {month}].",
    "An attempt to make the {product} from recycled {material} [failed at the {n}th try|succeeded in {month}|gave"
    " a handsome colour and a weak hinge].",
    "The drawing office at {town} has [scanned {m} folders of old plans|found a forgotten {noun} of great "
    "charm|replaced its lamp shades].",
    "Students from {school} measured [heat|noise|draught] at {n} points of the {noun}, and [found us "
    "out|confirmed the old rule of thumb|asked to stay].",
    "Field trials with {customers} used {m} pieces of the {product}; {n} were [returned with notes|worn to the "
    "rivets|quietly kept].",
    "Nothing in the year was so useful as [the mistake of {month}|a broken {noun}|a complaint from {town2}], "
    "which [taught us to test cold|led to a stronger joint|is framed above the bench].",
    "A simpler {noun}, [without springs|with one screw|in {material} only], is [half ready|on {manager}'s desk|to"
    " be tried at {town}].",
    "The question whether a {noun} should [hum|click|be silent] was put to {m} {customers}; [they were "
    "divided|silence won|{head} decided].",
    "In {month} the first {noun} with [a glass back|a cork foot|no screws at all] was [dropped from a ladder|left"
    " in the sea|lent to a school] and [lived|was mourned|taught us much].",
    "{n} notebooks of the old master of {town} were [read|deciphered]; one holds [a recipe for {material} "
    "varnish|a cure for a sticking {noun}|remarks about his foreman].",
    "Trials of {material} from {town2} for the {product} [ended in {month}|go on], [and the smell has been "
    "remarked upon|with {m} samples to go].",
)  # fmt: skip

POLICY_NOTES: Final = (
    "Goods such as the {product} are [valued at cost|written down after {n} months], [unless {customers} have "
    "paid a deposit|unless {material} can be melted and used again].",
    "Machines at {town} are written off over {n} years; [moulds for the {noun}|patterns and jigs] over "
    "[five|six|eight].",
    "Revenue of {segment} is counted when the {noun} [leaves the gate|has been signed for|has run for a day at "
    "the buyer's].",
    "Leases run for {n} years at {town2} and include [a store for {material}|a quay|a house for the porter].",
    "A guarantee of {m} months is given on the {product}; [the reserve for it was reviewed in {month}|past years "
    "serve as a guide].",
    "Sums due from {customers} are [checked one by one|grouped by age]; those older than {m} weeks are "
    "[doubted|written down by a half].",
    "Contracts to buy {material} [until {month}|for {n} months ahead] are not shown in the balance sheet, since "
    "[both sides may withdraw|nothing has been delivered].",
    "Related parties: {person} [rents a boathouse to|sits without pay on the council of|lends paintings to] [the "
    "company|a club at {town2}]; the sums are [small|below the limit set by law].",
    "The choice of {n} years for halls at {town} is a judgement; [two years more or less would move "
    "little|auditors discussed it in {month}].",
    "Grants for [insulation|training|the quay] at {town} are [deducted from the cost of the thing|spread over {n}"
    " years].",
    "Tools under {m} dollars are [charged at once|not listed], save at {town}, where [custom rules|{manager} "
    "counts everything].",
    "Goods of {segment} on their way between {town} and {town2} at the year's end were [counted at "
    "{town2}|counted once, after some debate].",
    "A claim against {peer} for {material} that arrived wet in {month} is [not in the books until paid|shown at "
    "half its sum].",
    "Hours spent on the next {noun} are [charged to the year|carried forward only once {head} has signed that it "
    "will be sold].",
)  # fmt: skip

SECTIONS: Final = {
    "A chronicle of the year": CHRONICLE,
    "From the divisions": SEGMENT_DIARY,
    "Notes from the works": WORKS_NOTES,
    "Risk in daily life": RISK_NOTES,
    "Hands and heads": PEOPLE_NOTES,
    "Trying things": RESEARCH_NOTES,
    "How we count": POLICY_NOTES,
}
