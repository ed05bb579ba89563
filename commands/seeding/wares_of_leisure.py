"""What students sell to each other: fashion, food, beauty, sports and services."""

from commands.seeding.offers import NEW_ONLY, Branch, Leaf

STYLE_AND_LEISURE: tuple[Branch, ...] = (
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
                NEW_ONLY,
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
                NEW_ONLY,
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
                NEW_ONLY,
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
                NEW_ONLY,
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
                NEW_ONLY,
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
                NEW_ONLY,
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
                NEW_ONLY,
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
                NEW_ONLY,
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
                NEW_ONLY,
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
                NEW_ONLY,
            ),
        ),
    ),
)
