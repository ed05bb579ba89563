"""What students sell to each other: a category tree, and for each leaf what is offered in it."""

from dataclasses import dataclass, field

_NEW_ONLY = ("new",)
_ANY = ("new", "like_new", "good", "good", "fair")


@dataclass(frozen=True)
class Leaf:
    """A category in which things are offered.

    ``things`` are names with their usual price in naira; ``variants`` tell one offer from the next.
    """

    name: str
    things: tuple[tuple[str, int], ...]
    variants: tuple[str, ...]
    tags: tuple[str, ...]
    conditions: tuple[str, ...] = _ANY


@dataclass(frozen=True)
class Branch:
    """A category of categories."""

    name: str
    children: tuple["Branch | Leaf", ...] = field(default=())


TREE: tuple[Branch, ...] = (
    Branch(
        "Books & Study",
        (
            Leaf(
                "Textbooks",
                (
                    ("Engineering Mathematics by Stroud", 6_500),
                    ("Guyton and Hall Medical Physiology", 18_000),
                    ("Campbell Biology", 14_000),
                    ("Nigerian Legal System, casebook", 7_500),
                    ("Principles of Economics by Mankiw", 8_000),
                    ("Organic Chemistry by Morrison and Boyd", 9_500),
                    ("Introduction to Algorithms (CLRS)", 15_000),
                    ("Financial Accounting Made Simple", 4_500),
                ),
                ("latest edition", "previous edition", "with my notes", "no markings", "hardcover"),
                ("textbook", "study"),
            ),
            Leaf(
                "Past Questions",
                (
                    ("GST 101 past questions, ten years", 1_200),
                    ("MTH 101 solved past questions", 1_500),
                    ("Post-UTME practice pack", 2_000),
                    ("Anatomy MBBS past questions", 3_000),
                ),
                ("printed and bound", "with answers", "two semesters"),
                ("exams", "revision"),
                _NEW_ONLY,
            ),
            Leaf(
                "Stationery",
                (
                    ("Higher-education notebook, pack of five", 2_500),
                    ("Technical drawing set", 9_000),
                    ("Highlighter set of six", 1_500),
                    ("A4 drawing board with T-square", 12_000),
                ),
                ("ruled", "blue", "assorted colours"),
                ("stationery", "writing"),
                _NEW_ONLY,
            ),
            Leaf(
                "Calculators",
                (
                    ("Casio fx-991ES Plus scientific calculator", 11_000),
                    ("Casio fx-82MS calculator", 5_500),
                    ("Texas Instruments financial calculator", 28_000),
                ),
                ("with cover", "new battery", "exam approved"),
                ("calculator", "engineering"),
            ),
            Leaf(
                "Lab Wear",
                (
                    ("White lab coat, knee length", 6_000),
                    ("Safety goggles for chemistry lab", 2_200),
                    ("Dissecting kit, twelve pieces", 5_000),
                ),
                ("size M", "size L", "size S"),
                ("laboratory", "science"),
            ),
        ),
    ),
    Branch(
        "Electronics",
        (
            Branch(
                "Phones & Tablets",
                (
                    Leaf(
                        "Smartphones",
                        (
                            ("Tecno Spark 20", 115_000),
                            ("Infinix Hot 40i", 125_000),
                            ("Samsung Galaxy A15", 175_000),
                            ("Redmi Note 13", 190_000),
                            ("iPhone 11", 260_000),
                            ("itel A70", 78_000),
                        ),
                        ("128 GB", "64 GB", "dual SIM, 256 GB", "with charger and pouch"),
                        ("phone", "android"),
                    ),
                    Leaf(
                        "Phone Accessories",
                        (
                            ("Tempered glass screen guard", 1_500),
                            ("Shockproof phone pouch", 2_000),
                            ("USB-C fast charging cable", 2_500),
                            ("Ring light with tripod", 9_500),
                        ),
                        ("for most models", "1.5 m", "black", "clear"),
                        ("phone", "accessory"),
                        _NEW_ONLY,
                    ),
                ),
            ),
            Branch(
                "Computers",
                (
                    Leaf(
                        "Laptops",
                        (
                            ("HP EliteBook 840 G5", 265_000),
                            ("Dell Latitude 7490", 245_000),
                            ("Lenovo ThinkPad T480", 230_000),
                            ("MacBook Air 2017", 320_000),
                        ),
                        (
                            "Core i5, 8 GB, 256 GB SSD",
                            "Core i7, 16 GB, 512 GB SSD",
                            "with bag",
                            "battery lasts 5 hours",
                        ),
                        ("laptop", "computer"),
                        ("like_new", "good", "fair"),
                    ),
                    Leaf(
                        "Computer Accessories",
                        (
                            ("Wireless mouse", 4_500),
                            ("Laptop cooling pad", 8_500),
                            ("USB flash drive 64 GB", 6_000),
                            ("External hard drive 1 TB", 48_000),
                        ),
                        ("black", "USB 3.0", "boxed"),
                        ("computer", "accessory"),
                    ),
                ),
            ),
            Leaf(
                "Audio",
                (
                    ("Bluetooth earbuds", 14_000),
                    ("Over-ear headphones", 22_000),
                    ("Portable Bluetooth speaker", 18_500),
                ),
                ("noise cancelling", "deep bass", "white", "splash proof"),
                ("audio", "music"),
            ),
            Leaf(
                "Power & Charging",
                (
                    ("Power bank 20,000 mAh", 16_500),
                    ("Solar power bank with torch", 19_000),
                    ("Extension box with surge guard", 7_500),
                    ("Mini UPS for router", 24_000),
                ),
                ("fast charging", "with warranty", "four sockets"),
                ("power", "nepa"),
            ),
        ),
    ),
    Branch(
        "Room & Hostel",
        (
            Leaf(
                "Bedding",
                (
                    ("Student mattress 6 x 3", 32_000),
                    ("Bedsheet with two pillowcases", 8_500),
                    ("Mosquito net for bunk bed", 5_500),
                    ("Fleece blanket", 9_000),
                ),
                ("blue stripes", "plain white", "ankara print"),
                ("hostel", "bed"),
            ),
            Leaf(
                "Kitchenware",
                (
                    ("Electric kettle 1.8 L", 11_500),
                    ("Hot plate, single", 13_000),
                    ("Non-stick pot set of three", 21_000),
                    ("Food flask 2 L", 8_000),
                ),
                ("stainless", "black", "one semester old"),
                ("kitchen", "cooking"),
            ),
            Leaf(
                "Fans & Appliances",
                (
                    ("Rechargeable standing fan 16 inch", 58_000),
                    ("Pressing iron, dry", 9_500),
                    ("Table-top fridge 50 L", 145_000),
                ),
                ("with solar panel", "two speeds", "silent"),
                ("appliance", "hostel"),
            ),
            Leaf(
                "Furniture & Storage",
                (
                    ("Foldable reading table", 17_500),
                    ("Plastic chair", 6_500),
                    ("Shoe rack, five tiers", 9_500),
                    ("Fabric wardrobe", 22_000),
                ),
                ("wooden top", "grey", "easy to carry"),
                ("furniture", "hostel"),
            ),
            Leaf(
                "Lamps",
                (
                    ("Rechargeable reading lamp", 7_500),
                    ("LED strip light 5 m", 6_000),
                    ("Solar bulb with hook", 4_500),
                ),
                ("warm light", "USB", "dimmable"),
                ("light", "reading"),
            ),
        ),
    ),
    Branch(
        "Fashion",
        (
            Branch(
                "Women",
                (
                    Leaf(
                        "Dresses",
                        (
                            ("Ankara gown", 14_000),
                            ("Maxi dress, chiffon", 11_500),
                            ("Dinner dress with slit", 18_500),
                        ),
                        ("size 10", "size 12", "free size", "size 8"),
                        ("dress", "women"),
                    ),
                    Leaf(
                        "Tops & Skirts",
                        (
                            ("Crop top, ribbed", 4_500),
                            ("Corporate blouse", 7_000),
                            ("Pleated skirt, knee length", 6_500),
                        ),
                        ("size S", "size M", "white", "black"),
                        ("women", "casual"),
                    ),
                ),
            ),
            Branch(
                "Men",
                (
                    Leaf(
                        "Shirts",
                        (
                            ("Senator kaftan", 24_000),
                            ("Vintage shirt", 6_000),
                            ("Plain round-neck T-shirts, pack of three", 9_000),
                        ),
                        ("size L", "size XL", "navy", "wine"),
                        ("men", "shirt"),
                    ),
                    Leaf(
                        "Trousers",
                        (
                            ("Chinos trousers", 9_500),
                            ("Baggy jeans", 11_000),
                            ("Joggers with pockets", 7_500),
                        ),
                        ("waist 32", "waist 34", "black", "khaki"),
                        ("men", "trousers"),
                    ),
                ),
            ),
            Leaf(
                "Shoes",
                (
                    ("White sneakers", 17_500),
                    ("Palm slippers, leather", 8_500),
                    ("Loafers for presentations", 15_000),
                    ("Crocs", 9_000),
                ),
                ("size 42", "size 40", "size 38", "size 44"),
                ("shoes", "footwear"),
            ),
            Leaf(
                "Bags & Jewellery",
                (
                    ("Laptop backpack, waterproof", 13_500),
                    ("Tote bag, canvas", 5_500),
                    ("Wristwatch, leather strap", 12_000),
                    ("Waist beads, handmade", 3_000),
                ),
                ("black", "brown", "handmade", "gift boxed"),
                ("bag", "accessory"),
            ),
        ),
    ),
    Branch(
        "Food & Drinks",
        (
            Leaf(
                "Snacks",
                (
                    ("Chin chin, 1 kg bucket", 4_500),
                    ("Plantain chips, pack of ten", 3_500),
                    ("Small chops tray for ten", 15_000),
                    ("Meat pies, half a dozen", 4_800),
                ),
                ("fresh daily", "spicy", "party pack", "ready at noon"),
                ("snack", "food"),
                _NEW_ONLY,
            ),
            Leaf(
                "Provisions",
                (
                    ("Provisions bundle for freshers", 28_000),
                    ("Indomie carton", 12_500),
                    ("Garri ijebu, 4 kg", 5_500),
                    ("Groundnut and kulikuli mix", 2_500),
                ),
                ("large", "family size", "delivered to your hall"),
                ("provisions", "food"),
                _NEW_ONLY,
            ),
            Leaf(
                "Cooked Meals",
                (
                    ("Jollof rice bowl with chicken", 3_500),
                    ("Ofada rice and ayamase", 4_000),
                    ("Egusi soup, 2 L", 9_500),
                    ("Weekly lunch plan, five meals", 14_500),
                ),
                ("extra pepper", "mild", "with plantain"),
                ("meal", "lunch"),
                _NEW_ONLY,
            ),
            Leaf(
                "Drinks",
                (
                    ("Zobo, pack of six", 3_000),
                    ("Smoothie, mango and pineapple", 2_000),
                    ("Tiger nut milk, 1 L", 2_500),
                ),
                ("chilled", "no sugar", "ginger"),
                ("drink", "fresh"),
                _NEW_ONLY,
            ),
        ),
    ),
    Branch(
        "Beauty & Care",
        (
            Leaf(
                "Hair",
                (
                    ("Braided wig, knotless", 32_000),
                    ("Attachment, six packs", 9_000),
                    ("Clippers, rechargeable", 14_500),
                ),
                ("shoulder length", "waist length", "natural black"),
                ("hair", "beauty"),
                _NEW_ONLY,
            ),
            Leaf(
                "Skincare",
                (
                    ("Raw shea butter, 500 g", 3_500),
                    ("Black soap, liquid", 4_000),
                    ("Sunscreen SPF 50", 8_500),
                ),
                ("unscented", "for oily skin", "for dry skin"),
                ("skin", "beauty"),
                _NEW_ONLY,
            ),
            Leaf(
                "Fragrance",
                (
                    ("Oil perfume, 10 ml", 3_000),
                    ("Body spray", 4_500),
                    ("Perfume decant, 30 ml", 9_500),
                ),
                ("oud", "fruity", "musk", "vanilla"),
                ("perfume", "gift"),
                _NEW_ONLY,
            ),
        ),
    ),
    Branch(
        "Sports & Leisure",
        (
            Leaf(
                "Football",
                (
                    ("Match football", 9_500),
                    ("Football boots", 21_000),
                    ("Faculty jersey with name", 7_500),
                ),
                ("home colours", "red and white", "used for one season"),
                ("football", "sport"),
            ),
            Leaf(
                "Gym",
                (
                    ("Dumbbells, pair of 5 kg", 16_000),
                    ("Skipping rope", 2_500),
                    ("Yoga mat", 7_000),
                ),
                ("rubber", "adjustable", "purple"),
                ("fitness", "sport"),
            ),
            Leaf(
                "Games",
                (
                    ("PlayStation 4 pad", 19_500),
                    ("Scrabble board", 8_500),
                    ("FC 24 for PS4", 17_000),
                    ("Ludo and chess set", 5_500),
                ),
                ("complete", "sealed", "travel size"),
                ("game", "fun"),
            ),
            Leaf(
                "Instruments & Bicycles",
                (
                    ("Acoustic guitar with bag", 55_000),
                    ("Campus bicycle, 26 inch", 68_000),
                    ("Piano keyboard, 49 keys", 62_000),
                ),
                ("beginner", "serviced", "with lock"),
                ("hobby", "leisure"),
            ),
        ),
    ),
    Branch(
        "Services",
        (
            Leaf(
                "Tutoring",
                (
                    ("MTH 102 tutorial, four sessions", 10_000),
                    ("Python lessons for beginners", 15_000),
                    ("IELTS speaking practice", 12_000),
                ),
                ("weekends", "in small groups", "one to one"),
                ("tutorial", "learning"),
                _NEW_ONLY,
            ),
            Leaf(
                "Printing & Typing",
                (
                    ("Project printing and binding", 8_500),
                    ("Typing of 20 pages", 4_000),
                    ("Passport photographs, eight", 1_500),
                ),
                ("same day", "colour", "hard cover"),
                ("printing", "project"),
                _NEW_ONLY,
            ),
            Leaf(
                "Laundry & Repairs",
                (
                    ("Laundry, one bag washed and ironed", 4_500),
                    ("Phone screen replacement", 18_000),
                    ("Laptop cleaning and service", 9_000),
                ),
                ("pick-up included", "within 24 hours", "at your hall"),
                ("service", "repair"),
                _NEW_ONLY,
            ),
        ),
    ),
)
