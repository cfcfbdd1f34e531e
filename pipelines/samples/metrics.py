"""Figures that a report states in running text, each with last year's beside it to be confused with.

Every company discloses most of them and withholds the rest in all years. A withheld one makes an unanswerable
question, so no other sentence of a report may use its ``term``.
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
