"""Labelled queries: search texts of students, and the relevant products of the seeded catalogue.

Labels state the desired results, not the current results. A product is named by the beginning of its titles. Every
listing of the product is relevant.
"""

from dataclasses import dataclass

EXACT, PLURAL, ACCENT, TYPO, PREFIX, SYNONYM, SEVERAL, NUMBER, GLUED = (
    "exact",
    "plural",
    "accents",
    "typo",
    "beginning",
    "synonym",
    "several words",
    "number",
    "one or two words",
)


@dataclass(frozen=True)
class Label:
    """A query, the kind of query, and the beginnings of the relevant titles."""

    query: str
    kind: str
    things: tuple[str, ...]

    def is_relevant(self, title: str) -> bool:
        """Return whether a title is relevant."""
        return title.startswith(self.things)


_CASIOS = ("Casio fx-991ES", "Casio fx-82MS")
_CALCULATORS = (*_CASIOS, "Texas Instruments")
_LAPTOPS = ("HP EliteBook", "Dell Latitude", "Lenovo ThinkPad", "MacBook Air")
_PHONES = ("Tecno Spark", "Infinix Hot", "Samsung Galaxy", "Redmi Note", "iPhone 11", "itel A70")
_PHONES_OF_128_GB = (
    *("Tecno Spark 20, 128", "Infinix Hot 40i, 128", "Samsung Galaxy A15, 128"),
    *("Redmi Note 13, 128", "iPhone 11, 128", "itel A70, 128"),
)
_POWER_BANKS = ("Power bank", "Solar power bank")
_PAST_QUESTIONS = ("GST 101", "MTH 101 solved", "Anatomy MBBS")
_PERFUMES = ("Oil perfume", "Perfume decant")

LABELS: tuple[Label, ...] = (
    Label("calculator", EXACT, _CALCULATORS),
    Label("laptop", EXACT, _LAPTOPS),
    Label("mattress", EXACT, ("Student mattress",)),
    Label("power bank", EXACT, _POWER_BANKS),
    Label("kettle", EXACT, ("Electric kettle",)),
    Label("earbuds", EXACT, ("Bluetooth earbuds",)),
    Label("chin chin", EXACT, ("Chin chin",)),
    Label("wig", EXACT, ("Braided wig",)),
    Label("perfume", EXACT, _PERFUMES),
    Label("sneakers", EXACT, ("White sneakers",)),
    Label("guitar", EXACT, ("Acoustic guitar",)),
    Label("jollof rice", EXACT, ("Jollof rice",)),
    Label("mouse", EXACT, ("Wireless mouse",)),
    Label("calculators", PLURAL, _CALCULATORS),
    Label("laptops", PLURAL, _LAPTOPS),
    Label("lab coats", PLURAL, ("White lab coat",)),
    Label("power banks", PLURAL, _POWER_BANKS),
    Label("highlighters", PLURAL, ("Highlighter set",)),
    Label("past question", PLURAL, _PAST_QUESTIONS),
    Label("mosquito nets", PLURAL, ("Mosquito net",)),
    Label("dumbbell", PLURAL, ("Dumbbells",)),
    Label("blankets", PLURAL, ("Fleece blanket",)),
    Label("CALCULATÓR", ACCENT, _CALCULATORS),
    Label("Èlectric kéttle", ACCENT, ("Electric kettle",)),
    Label("ÀNKARA gown", ACCENT, ("Ankara gown",)),
    Label("egusí sòup", ACCENT, ("Egusi soup",)),
    Label("gàrri", ACCENT, ("Garri ijebu",)),
    Label("lapotp", TYPO, _LAPTOPS),
    Label("calculater", TYPO, _CALCULATORS),
    Label("calcluator", TYPO, _CALCULATORS),
    Label("matress", TYPO, ("Student mattress",)),
    Label("mosqito net", TYPO, ("Mosquito net",)),
    Label("headfones", TYPO, ("Over-ear headphones",)),
    Label("sneekers", TYPO, ("White sneakers",)),
    Label("wirless mouse", TYPO, ("Wireless mouse",)),
    Label("samsng galaxy", TYPO, ("Samsung Galaxy",)),
    Label("infinx", TYPO, ("Infinix Hot",)),
    Label("bluetoth speaker", TYPO, ("Portable Bluetooth speaker",)),
    Label("dumbells", TYPO, ("Dumbbells",)),
    Label("shea buter", TYPO, ("Raw shea butter",)),
    Label("eletric ketle", TYPO, ("Electric kettle",)),
    Label("jolof rice", TYPO, ("Jollof rice",)),
    Label("stehoscope goggels", TYPO, ("Safety goggles",)),
    Label("bicylce", TYPO, ("Campus bicycle",)),
    Label("perfurme", TYPO, _PERFUMES),
    Label("kaftna", TYPO, ("Senator kaftan",)),
    Label("past qestions", TYPO, _PAST_QUESTIONS),
    Label("alptop bag", TYPO, ("Laptop backpack",)),
    Label("calcu", PREFIX, _CALCULATORS),
    Label("power ba", PREFIX, _POWER_BANKS),
    Label("recharg", PREFIX, ("Rechargeable", "Clippers, rechargeable")),
    Label("thinkp", PREFIX, ("Lenovo ThinkPad",)),
    Label("mosq", PREFIX, ("Mosquito net",)),
    Label("gui", PREFIX, ("Acoustic guitar",)),
    Label("reading la", PREFIX, ("Rechargeable reading lamp",)),
    Label("screen protector", SYNONYM, ("Tempered glass",)),
    Label("phone case", SYNONYM, ("Shockproof phone pouch",)),
    Label("second hand shirt", SYNONYM, ("Vintage shirt",)),
    Label("refrigerator", SYNONYM, ("Table-top fridge",)),
    Label("bed sheet", SYNONYM, ("Bedsheet",)),
    Label("noodles", SYNONYM, ("Indomie carton",)),
    Label("pen drive", SYNONYM, ("USB flash drive",)),
    Label("notebook computer", SYNONYM, _LAPTOPS),
    Label("smartphone", SYNONYM, _PHONES),
    Label("hdd", SYNONYM, ("External hard drive",)),
    Label("PQ gst", SYNONYM, ("GST 101",)),
    Label("bike", SYNONYM, ("Campus bicycle",)),
    Label("extension cord", SYNONYM, ("Extension box",)),
    Label("football shirt", SYNONYM, ("Faculty jersey",)),
    Label("scientific calculator", SEVERAL, ("Casio fx-991ES",)),
    Label("android phone 128gb", SEVERAL, _PHONES_OF_128_GB),
    Label("solar power bank", SEVERAL, ("Solar power bank",)),
    Label("reading lamp", SEVERAL, ("Rechargeable reading lamp",)),
    Label("cable for charging", SEVERAL, ("USB-C fast charging cable",)),
    Label("i want to buy a lab coat", SEVERAL, ("White lab coat",)),
    Label("organic chemistry textbook", SEVERAL, ("Organic Chemistry",)),
    Label("stroud engineering mathematics", SEVERAL, ("Engineering Mathematics",)),
    Label("laundry service", SEVERAL, ("Laundry, one bag",)),
    Label("phone screen repair", SEVERAL, ("Phone screen replacement",)),
    Label("fx991", NUMBER, ("Casio fx-991ES",)),
    Label("casio fx-82", NUMBER, ("Casio fx-82MS",)),
    Label("t480", NUMBER, ("Lenovo ThinkPad T480",)),
    Label("elitebook 840", NUMBER, ("HP EliteBook 840",)),
    Label("20000mah", NUMBER, ("Power bank 20,000",)),
    Label("ps4", NUMBER, ("FC 24 for PS4", "PlayStation 4")),
    Label("mth 101", NUMBER, ("MTH 101",)),
    Label("iphone11", NUMBER, ("iPhone 11",)),
    Label("64gb flash", NUMBER, ("USB flash drive",)),
    Label("powerbank", GLUED, _POWER_BANKS),
    Label("ear buds", GLUED, ("Bluetooth earbuds",)),
    Label("head phones", GLUED, ("Over-ear headphones",)),
    Label("tshirt", GLUED, ("Plain round-neck T-shirts",)),
    Label("non stick pot", GLUED, ("Non-stick pot",)),
)
