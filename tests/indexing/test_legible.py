"""Gibberish is told from text in many languages, and from lists that are no language."""

from __future__ import annotations

import random

import pytest

from okralong.pipelines.indexing.formats.legible import is_legible, without_turned_words
from tests.indexing.growth import LINEAR, growth

TEXTS = {
    "English": "Revenue rose because the harbour reopened and ferries crossed twice every weekday morning, while "
    "costs of diesel, insurance and mooring fell slightly below those budgeted last autumn by the owners.",
    "German": "Umsatzerlöse stiegen, weil Fähren werktags zweimal übersetzten; Treibstoffkosten, Versicherungsprämien "
    "sowie Liegegebühren sanken gegenüber Vorjahr leicht, Abschreibungen blieben unverändert. Vorräte, Forderungen, "
    "Eigenkapital, Rückstellungen, latente Steuern, Beteiligungen, immaterielle Vermögenswerte, Jahresüberschuss.",
    "French": "Chiffre d'affaires consolidé, résultat opérationnel courant, immobilisations corporelles, créances "
    "clients, trésorerie nette, capitaux propres, dettes fournisseurs, amortissements, provisions, écarts "
    "d'acquisition, impôts différés, participations, actifs incorporels, emprunts obligataires",
    "Spanish": "Ingresos ordinarios, resultado bruto, inmovilizado material, existencias, deudores comerciales, "
    "efectivo, patrimonio neto, acreedores, amortizaciones, provisiones, impuestos diferidos, participaciones, "
    "activos intangibles, obligaciones emitidas, beneficio ejercicio, dividendos pagados",
    "Italian": "Ricavi operativi, risultato lordo, immobilizzazioni materiali, rimanenze, crediti commerciali, "
    "disponibilità liquide, patrimonio netto, debiti verso fornitori, ammortamenti, accantonamenti, imposte differite, "
    "partecipazioni, attività immateriali, utile esercizio, dividendi distribuiti",
    "Dutch": "Omzet, brutowinst, materiële vaste activa, voorraden, handelsvorderingen, geldmiddelen, eigen vermogen, "
    "handelsschulden, afschrijvingen, voorzieningen, uitgestelde belastingen, deelnemingen, immateriële activa, "
    "leningen, nettowinst, uitgekeerd dividend, kasstroom, jaarrekening",
    "Polish": "Przychody sprzedaży, zysk brutto, rzeczowe aktywa trwałe, zapasy, należności handlowe, środki "
    "pieniężne, kapitał własny, zobowiązania handlowe, amortyzacja, rezerwy, podatek odroczony, udziały, wartości "
    "niematerialne, obligacje, wynik finansowy, dywidendy wypłacone, przepływy",
    "Russian": "Выручка выросла, поскольку паромы пересекали залив дважды каждый будний день; затраты топлива, "
    "страхования, причала немного снизились относительно бюджета прошлой осени, амортизация осталась прежней.",
    "Greek": "Κύκλος εργασιών, μικτά κέρδη, ενσώματα πάγια, αποθέματα, εμπορικές απαιτήσεις, ταμειακά διαθέσιμα, ίδια "
    "κεφάλαια, προμηθευτές, αποσβέσεις, προβλέψεις, αναβαλλόμενοι φόροι, συμμετοχές, άυλα στοιχεία, δάνεια, μερίσματα",
    "Arabic": "ارتفعت الإيرادات لأن العبارات عبرت الخليج مرتين كل يوم من أيام الأسبوع بينما انخفضت تكاليف الوقود "
    "والتأمين قليلا مقارنة بالميزانية وبقي الاستهلاك دون تغيير والضرائب المؤجلة والمخصصات والأصول غير الملموسة",
    "Hebrew": "ההכנסות עלו משום שהמעבורות חצו פעמיים בכל יום חול ואילו עלויות הדלק והביטוח ירדו מעט לעומת התקציב והפחת "
    "נותר ללא שינוי מסים נדחים הפרשות נכסים בלתי מוחשיים הלוואות דיבידנדים",
    "Chinese": "渡轮每个工作日往返两次,营业收入因此增长;燃料、保险和停泊费用"
    "略低于去年秋季的预算,折旧保持不变。無形資產、遞延稅項、貿易應收款項。",
    "Japanese": "フェリーが平日に二往復したため売上高は増加した。"
    "燃料費、保険料および係留料は前年秋の予算をわずかに下回り、減価償却費は変わらなかった。",
    "Korean": "여객선이 평일마다 두 번 왕복하여 매출이 증가하였고 연료비, "
    "보험료 및 계류비는 예산보다 조금 낮았으며 감가상각비는 변하지 않았다.",
    "Vietnamese": "Doanh thu tăng vì phà chạy hai chuyến mỗi ngày trong tuần, còn chi phí nhiên liệu, bảo hiểm giảm "
    "nhẹ so với ngân sách mùa thu năm ngoái, khấu hao không thay đổi, thuế hoãn lại, tài sản vô hình",
    "numbers": " ".join(f"{n * 7919 % 100_000:,}" for n in range(200)),
    "tickers": "AAPL MSFT GOOG AMZN NVDA META TSLA JPM UNH XOM JNJ PG MA HD CVX LLY ABBV MRK PEP KO AVGO COST TMO WMT "
    "CSCO MCD ABT CRM ACN DHR LIN NKE VZ TXN NEE PM ADBE WFC RTX BMY UPS COP HON AMGN ORCL LOW QCOM INTU",
    "codes": " ".join(
        f"{a}{b}X-{n}Q7" for n, (a, b) in enumerate(zip("QWRTZPSDFGHJKLXCVBNM" * 3, "XKJQ" * 15, strict=True))
    ),
    "formulas": "NaCl H2SO4 CH3COOH NH4NO3 CaCO3 KMnO4 Fe2O3 x_i = a_i + b_j f(x, y) E[X] = mu Var(X) = s^2 " * 6,
    "abbreviations": "Abs. Art. Bd. bzgl. bzw. d.h. ebd. evtl. ff. ggf. i.d.R. Kap. lit. m.E. Nr. resp. S. s.o. Tab. "
    "u.a. usw. vgl. z.B. zit. zzgl. cf. e.g. i.e. ibid. loc. cit. op. viz. pp. vol. no. eds. et al. incl.",
    "spaced": " ".join("CONSOLIDATED BALANCE SHEET AND NOTES") * 4,
    "code": "def read(path): return [line.split(',') for line in open(path)] # for k, v in kwargs.items()",
    "web addresses": "https://example.org/Archives/edgar/data/320193/0000320193.htm https://doi.org/10.1016/j.jf.2019 "
    * 5,
    "surnames": "Szczepański Wojciechowski Brzęczyszczykiewicz Łękołody Ndiaye Tshabalala Mkhize Dlamini Papadopoulos "
    "Krvavica Trnovšek Ólafsdóttir Þorsteinsson Nguyễn Hämäläinen Çelik Öztürk Horváth Dvořák Đorđević Żuławski Kovács",
}


@pytest.mark.parametrize("kind", TEXTS)
def test_text_and_lists_are_no_gibberish(kind: str) -> None:
    assert is_legible(TEXTS[kind])


def shifted(text: str, by: int) -> str:
    """Every character but blanks that many places further."""
    return "".join(char if char.isspace() else chr(ord(char) + by) for char in text)


def exchanged(text: str, seed: int) -> str:
    """Every letter exchanged for another one of the text."""
    letters = sorted({char for char in text if char.isalpha()})
    others = random.Random(seed).sample(letters, len(letters))
    return text.translate(str.maketrans("".join(letters), "".join(others)))


LATIN = ("English", "German", "French", "Spanish", "Italian", "Dutch", "Polish")


@pytest.mark.parametrize("kind", LATIN)
def test_letters_that_stand_for_others_are_gibberish(kind: str) -> None:
    found = sum(not is_legible(exchanged(TEXTS[kind], seed)) for seed in range(20))
    assert found >= 14, found  # in texts of thirty words; a page has more
    assert not is_legible(shifted(TEXTS[kind].lower(), 1))


@pytest.mark.parametrize("kind", ["Russian", "Greek", "Arabic", "Hebrew", "Chinese", "Japanese"])
def test_text_in_the_wrong_encoding_is_gibberish(kind: str) -> None:
    assert not is_legible(TEXTS[kind].encode().decode("cp1252", "replace"))


def test_glyph_numbers_need_words_as_proof() -> None:
    assert is_legible("Cash and cash equivalents", proof=True)
    assert is_legible("Immobilisations corporelles", proof=True)
    assert not is_legible(shifted("Cash equivalents 1,234", -29), proof=True)
    assert not is_legible("7KH RIILFH RI 4XLOOIHDWKHU", proof=True)
    assert not is_legible("12 345", proof=True)
    assert not is_legible("", proof=True)


@pytest.mark.parametrize("kind", ["Arabic", "Hebrew"])
def test_words_whose_letters_are_reversed_are_turned_round(kind: str) -> None:
    text = TEXTS[kind]
    assert without_turned_words(text) == text
    turned = without_turned_words(" ".join(word[::-1] for word in text.split())).split()
    assert sum(map(str.__eq__, turned, text.split())) > 0.75 * len(turned)


@pytest.mark.parametrize(
    "unit", ["a", "ab ", "\u00c3\u00a9", "e\u00e9", "abcd", "\u0411", "x" * 39 + " ", "\u0628", "\u0628\u0629 "]
)
def test_time_is_linear(unit: str) -> None:
    assert growth(lambda size: is_legible(unit * size), 20_000) < LINEAR
    assert growth(lambda size: without_turned_words(unit * size), 20_000) < LINEAR
