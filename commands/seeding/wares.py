"""The category tree, with what students sell to each other in it."""

from commands.seeding.offers import Branch
from commands.seeding.wares_of_leisure import STYLE_AND_LEISURE
from commands.seeding.wares_of_study import STUDY_AND_ROOM

CATEGORY_TREE: tuple[Branch, ...] = (*STUDY_AND_ROOM, *STYLE_AND_LEISURE)
