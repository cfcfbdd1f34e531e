"""Small tables of the shapes that text extraction leaves behind; companies and numbers are invented.

Each sample is (name, text before, table, text after). The prose around is wide, as in a filing.
"""

from __future__ import annotations

BEFORE = (
    "Harrow Mills Corporation sells flour and baked goods to bakeries, hotels and shops in nine "
    "countries of the north.\n"
    "Demand was steady through the year, and the company opened two mills while it closed an old one "
    "near the river.\n"
    "Management expects the coming year to be much like the last one, although the price of wheat is "
    "hard to foresee.\n"
)
AFTER = (
    "The increase was mainly the result of higher prices, which the company raised in two steps during "
    "the first half.\n"
    "Volumes were nearly unchanged, since larger orders from hotels made up for the smaller ones from "
    "the older shops.\n"
    "No customer stood for more than a tenth of the sales in any of the years that are presented in "
    "this annual report.\n"
)
CELL_PER_LINE = (
    "The following table shows net sales by segment for 2031 and 2030 (in thousands):\nYear Ended\n"
    "May 31,\n2031\n2030\nFlour\n$\n4,210\n$\n3,980\nBread\n1,115\n(1,020)\nTotal net sales\n$\n5,325\n$\n"
    "2,960"
)
SINGLE_SPACES = (
    "Consolidated Statements of Income\n(In thousands)\n2019 2018\nNet sales $ 1,234 $ 1,100\n"
    "Cost of sales (804) (790)\nGross profit 430 310\nTax (90) (70)\nNet income $ 340 $ 240"
)
DOTTED = (
    "Provision for Taxes\n2009\n2008\nFiscal Year\n"
    "Provision . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . .\n$50,036\n$40,925\n"
    "Effective rate . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . "
    ". . . \n16.8%\n21.2%"
)
BLANK_LINES = (
    "Inventories consisted of the following:\n \n \nDecember 31,\n \n \n2019\n \n2018\n \nGrain\n $\n"
    "1,942   $\n1,580\nBags\n \n2,230    \n2,072\n \n \nTotal inventories\n $\n4,172   $\n3,652"
)
ALIGNED = (
    "Segment        2019      2018\nNorth         1,200     1,100\nSouth           900       950\n"
    "Total         2,100     2,050"
)
TABS = "Mill\tOpened\tStaff\tOutput\nEast\t1988\t120\t4,400\nWest\t1991\t85\t3,150\nHill\t2004\t60\t1,975"
MARKDOWN = (
    "| Mill | Staff | Output |\n|---|---:|---:|\n| East | 120 | 4,400 |\n| West | 85 | 3,150 |\n| Hill | 60 | 1,975 |"
)
PIPES = "Mill | Staff | Output\nEast | 120 | 4,400\nWest | 85 | 3,150"
CAPTION_BELOW = (
    "Model\nPrecision\nRecall\nSieve\n89.48\n70.38\nMillstone\n85.16\n65.07\nTable 2: Results on the grain set."
)
NAMES_FIRST = (
    "Name\nFees Paid\n($)\nStock Awards\n($)\nAda Quill\n102,500\n178,317\nBo Tarn\n160,000\n178,317\n"
    "Cy Voss\n67,500\n178,317"
)
DASHES = (
    "Changes in the reserve were as follows (in thousands):\nNorth\nSouth\nTotal\nOpening balance\n"
    "$ 4,002\n$ —\n$ 4,002\nCharges\n—\n1,461\n1,461\nPayments\n(253)\n(78)\n(331)\nClosing balance\n"
    "$ 3,749\n$ 1,383\n$ 5,132"
)
NUMBERS_FIRST = (
    "The expense of $5.4 million consisted of the following (in thousands):\n$\n4,756\nDepreciation\n"
    "398  Leases\n66  Brands\n(584) Income tax benefit\n$\n4,636  Total expenses"
)
PERCENTAGES = (
    "The following table sets forth data as a percentage of revenue:\nYear Ended March 31,\n2012\n2011\n"
    "Product\n99.1%\n98.7%\nResearch\n0.9\n1.3\nTotal\n100.0\n100.0\nIncome (loss)\n1.2%\n(11.6)%"
)
WRAPPED_LABELS = (
    "Balance Sheets\n(in millions)\nJune 30,\n2031\n2030\n"
    "Accounts receivable, net of allowance for doubtful accounts and\ndiscounts of $1,100 and $1,220\n"
    "6,692\n6,276\nGrain\n6,392\n5,817\nTotal\n13,084\n12,093"
)

TABLES: dict[str, str] = {
    "cell per line": CELL_PER_LINE,
    "single spaces": SINGLE_SPACES,
    "dotted leaders": DOTTED,
    "blank lines": BLANK_LINES,
    "aligned": ALIGNED,
    "tabs": TABS,
    "markdown": MARKDOWN,
    "pipes": PIPES,
    "caption below": CAPTION_BELOW,
    "names first": NAMES_FIRST,
    "dashes": DASHES,
    "numbers first": NUMBERS_FIRST,
    "percentages": PERCENTAGES,
    "wrapped labels": WRAPPED_LABELS,
}


def embedded(table: str) -> tuple[str, int, int]:
    """The table between prose: the text, and where the table starts and ends in it."""
    text = f"{BEFORE}{table}\n{AFTER}"
    return text, len(BEFORE), len(BEFORE) + len(table)
