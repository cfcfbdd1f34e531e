"""Words of labels, heads, sections and titles that say what a table's cells count: money, shares, percent, terms."""

from __future__ import annotations

import re
from typing import Final

PERCENT: Final = re.compile(
    r"(?:(?:^|[^\d\s])\s*|\b(?:19|20)\d\d\s?)(?:%|\bper\s?cent(?:age)?s?\b|\bpct\b|\bin\sprozent\b|\bpourcentage\b|\bporcentaje\b"
    r"|\bbasis\spoints\b|\bbps\b)",
    re.IGNORECASE,
)
PER_UNIT: Final = re.compile(
    r"\b(?:per|je|par|por)[\s-](?!cent\b|annum\b|year\b|cents?\b)(?:[\w-]+\s){0,3}?"
    r"(?:shares?|units?|ads|adr|stock|aktie|action|acci\u00f3n|tonnes?|tons?|barrels?|boe|bbl|ounces?|oz|mwh|kwh|day|month"
    r"|employees?|customers?|users?|subscribers?|m2|sqm|sq\.?\s?ft|square|kg|lb|pound|gallon|litre|liter|passenger|asm"
    r"|room|night|vehicle|store|mcf|mmbtu)\b"
    r"|\b(?:d?eps|dps|navps|arpu|adr|revpar)\b|/\s?(?:share|oz|t|boe|bbl|mwh)\b|\bcents\b|\bpence\b"
    r"|\b(?:exercise|strike|share|stock|closing|market|offer|average|issue|subscription|conversion)\sprices?\b"
    r"|\bgrant[\s-]date\sfair\svalue\b|\bprice\s(?:high|low)\b",
    re.IGNORECASE,
)
AMOUNT_EACH: Final = re.compile(
    r"(?:[$\u20ac\u00a3]|\b[A-Z]{3}\s)\s?[\d.,]{1,12}\s?(?:par\svalue\s|cents?\s)?(?:per|each|a)\s(?:[\w-]+\s){0,3}?(?:shares?|units?|ads)\b"
    r"|[$\u20ac\u00a3]\s?[\d.,]{1,12}\s(?:par|stated|nominal)\svalue(?:\sper\s(?:\w+\s)?share)?"
    r"|\b(?:par|stated|nominal)\svalue,?\s(?:of\s)?[$\u20ac\u00a3]?\s?\d[\d.,]{0,12}(?:\sper\s(?:\w+\s)?share)?"
    r"|\b\d[\d.,]{0,12}\s?(?:cents?|pence|[cp])\sper\s(?:[\w-]+\s){0,2}share\b",
    re.IGNORECASE,
)
"""An amount per share within a label: "Dividends declared ($0.20 per share)". The cells are in the table's unit."""
MAYBE_PER_UNIT: Final = re.compile(r"^\W*(?:(?:basic|diluted|and)\W*)+$|\bprices?\b|\bpar\svalue\b", re.IGNORECASE)
STATEMENTS: Final = re.compile(
    r"\bfinancial\s+(?:statements|position)\b|\bbalance\s+sheets?\b|\bcash\s+flows?\b|\bstatements?\s+of\s|\bincome\s+statement"
    r"|\bprofit\s+(?:and|or)\s+loss\b",
    re.IGNORECASE,
)
RATE_HEAD: Final = re.compile(r"\b(?:rates?|yields?)\W*$", re.IGNORECASE)
NOTE_HEAD: Final = re.compile(r"\W*(?:notes?|ref(?:erence)?|anhang|notiz)\W*(?:no\W*)?", re.IGNORECASE)
EARNINGS: Final = re.compile(r"\b(?:income|loss|profit|numerator|attributable)\b", re.IGNORECASE)
"""Labels below a heading such as "Earnings per share" that may be its numerator."""
NO_SHARES: Final = re.compile(
    r"\b(?:repurchases?|purchases?|repurchased|issuances?|issue|proceeds|acquisitions?|sales?|buy-?backs?|dividends?|costs?"
    r"|exercise\sof|cancellation|treasury|redemption|premium|capital|payments?|profit|income|loss|earnings|equity|reserve|expenses?"
    r"|benefits?|compensation|salaries|wages|pay|payable|loans?|remuneration|taxes|value|amount|due|revenues?|assets)\b",
    re.IGNORECASE,
)
"""Words of labels that name money, though they also name shares or employees."""
SHARE_COUNT: Final = re.compile(
    r"\bweighted[\s-]average\b.*\b(?:shares|stock|units|outstanding)\b|\b(?:number|no\.)\sof\b.{0,40}?\bshares\b"
    r"|\b(?:diluted|basic)\b.{0,30}?\bshares\b|\bshares\b.{0,30}?\b(?:outstanding|in\sissue|used|authori[sz]ed)\b"
    r"|\bshares\s(?:basic|diluted)\b|\bdenominator\b|\bshare\scount\b|\bshares\s\((?:number|in\s)|\baktienanzahl\b"
    r"|(?:^|\||\bnumber\sof|\bstock)\W*shares\W*(?:\||$)|\bshares(?:\s\([^)]*\))?\sno\.",
    re.IGNORECASE,
)
SOME_SHARES: Final = re.compile(r"\bshares\b", re.IGNORECASE)
INSTRUMENTS: Final = re.compile(
    r"\b(?:performance\srights|shares\sunder\s(?:options?|awards?)|options\s(?:outstanding|granted|exercis\w+)|shareholdings?|shares\s(?:re)?purchased|shares\s(?:granted|awarded|vested|redeemed)|stock\soptions|options|warrants|rsus?|psus?|restricted\s(?:stock\s|share\s)?units)\b",
    re.IGNORECASE,
)
"""Rows that may count instruments or value them."""
STOCK: Final = re.compile(
    r"\bpar\svalue\b|\bstock[,:;]|\bcapital\b|\d\sshares\b|\bprice\b|\bfair\svalue\b", re.IGNORECASE
)
"""Labels of share capital: "Common stock, 1,000 shares authorized"."""
COUNT: Final = re.compile(
    r"\b(?:number|no\.|#)\sof\b|\bno\.\W*(?:\||$)|(?:^|\||\d)\W*number\W*(?:\||$)|\(#\)|(?:^|\()\W*days\b(?!\spast)|\bdays\s(?:sales|payables?|inventory|outstanding)\b|\bin\sdays\b"
    r"|\(years\)|\bin\syears\b|\b(?:useful|remaining|average)\s(?:\w+\s)?li(?:fe|ves)\b|\(months\)|\bratios?\b|\(x\)|\bsquare\s(?:feet|met(?:re|er)s|footage)\b|\bsq\.?\s?(?:ft|m)\b|\b(?:units|homes|vehicles|tonnes|ounces)\s(?:sold|closed|delivered|produced|shipped)\b|\btimes\b"
    r"|^\W*(?:(?:average|closing|year[\s-]end|foreign)\s)*exchange\srates?\W*(?:$|[A-Z]{3}\b)|^\W*(?:total\s)?(?:stores|restaurants|branches|hotels|aircraft|countries|sites)\W*$"
    r"|\((?:mwh|gwh|twh|kwh|mw|gw|tonnes|tons|kt|mt|koz|oz|boe|bbl|km|km2|m2|sqm|units|number|count|anzahl)\)",
    re.IGNORECASE,
)
EACH: Final = re.compile(
    r"^\W*(?:average\s)?(?:orders|visits|transactions|employees|products|lines|units|items)\sper\s\w"
    r"|^\W*(?:(?:total|active|average|new|paying|monthly|daily)\s){0,4}"
    r"(?:orders|customers|users|subscribers|members|visits|visitors|downloads|passengers|guests|tenants|transactions)"
    r"\s\((?:in\s)?(?:thousands|millions|'?000s?)\)",
    re.IGNORECASE,
)
"""Labels of counts of customers, and of what falls to each."""
NUMBER_OF: Final = re.compile(
    r"^\W*(?:\w+\s){0,3}?number\sof\s(?!shares)[^,.]{0,60}$|^\W*(?:\w+\s)?(?:employees|headcount|workforce)\b[^,.$]{0,30}$",
    re.IGNORECASE,
)
"""Titles of tables that only count."""
NOUN: Final = re.compile(
    r"\W*(?:total\s)?(?:number|count|employees|tenants|customers|homes|vehicles|rooms|beds|wells|units"
    r"|(?P<both>loans|properties|leases|contracts|accounts|policies|shares|options))(?:\s(?:sold|closed|delivered))?\W*",
    re.IGNORECASE,
)
"""Heads of counts, where other heads name amounts; "both" may be amounts, too."""
AMOUNT_HEAD: Final = re.compile(
    r"\b(?:amount|balance|value|rent|revenues?|sales|price|principal|cost|investment)s?\b|[$\u20ac\u00a3]",
    re.IGNORECASE,
)
TERM: Final = re.compile(
    r"^\W*(?:years|months|days|term|tenor|age)\W*(?:\([^)]*\))?\W*$"
    r"|\b(?:lease|loan|remaining|average|contractual|vesting|expected|original|useful)\s(?:\w+\s)?(?:terms?|lives|life|period|tenor|maturity)"
    r"\W*(?:\([^)]*\))?\W*$",
    re.IGNORECASE,
)
YEAR_HEAD: Final = re.compile(
    r"^\W*(?:year(?:\s(?:of\s\w+|built|acquired|opened))?|maturity(?:\s(?:date|year))?|expir\w+(?:\s\w+)?|due|since|matures)\W*$",
    re.IGNORECASE,
)
STAFF: Final = re.compile(
    r"\bemployees\b|\bheadcount\b|\bftes?\b|\bworkforce\b|\bmitarbeiter(?:zahl|innen)?\b|\beffectifs?\b", re.IGNORECASE
)
OWED: Final = re.compile(r"\b(?:payables?|liabilities|receivables?|due|expenses?|costs?|provisions?)\b", re.IGNORECASE)
NEVER_SCALED: Final = re.compile(
    r"\b(?:tenants|terms?|li(?:fe|ves)|maturity|(?:orders|visits)\sper|employees|headcount|ftes?|workforce|days|years|months|ratios?|times|rates?|stores|restaurants|branches|hotels"
    r"|aircraft|countries|sites|mitarbeiter\w*|effectifs?)\b|\((?:x|mw|gw|%|\#)\)",
    re.IGNORECASE,
)
"""Counts that no table writes in thousands without saying so beside them."""
MEASURE: Final = re.compile(
    r"x|days?|years?|months?|weeks?|hours?|employees|people|stores|customers|units|tonnes|tons|[kmgt]?wh?|km|kg|m2|sqm|kt|mt"
    r"|k?oz|boe|bbl|ha|acres|hectares",
    re.IGNORECASE,
)
MAYBE_PERCENT: Final = re.compile(
    r"\brates?\W*(?:\([^)]*\))?\W*$|\bmargins?\b|\byields?\b|\breturn\son\b|\bro[eai]\b|\broce\b|\bpayout\b|\bgrowth\b"
    r"|\bquote\b|\bmarge\b|\bcet\s?1\b|\btier\s1\b|\boccupancy\b|\bgearing\b",
    re.IGNORECASE,
)
IS_PERCENT: Final = re.compile(
    r"\b(?:tax|interest|discount|churn|occupancy|vacancy|unemployment|growth|inflation|coupon)\srates?\b"
    r"|\breturn\son\b|\bro[ei]\b|\broce\b|\bdividend\syield\b",
    re.IGNORECASE,
)
NO_PERCENT: Final = re.compile(r"\b(?:at|effect|impact|changes?|differences?|due|gross)\b|\bmargin\b", re.IGNORECASE)
