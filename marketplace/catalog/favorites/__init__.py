"""Favourites of people: toggle and list products, announce price drops and restocks."""
