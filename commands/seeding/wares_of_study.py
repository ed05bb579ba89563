"""What students sell to each other: books, electronics, and what a room needs."""

from commands.seeding.offers import NEW_ONLY, Branch, Leaf

STUDY_AND_ROOM: tuple[Branch, ...] = (
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
                NEW_ONLY,
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
                NEW_ONLY,
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
                        NEW_ONLY,
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
)
