"""Campuses, hubs, public holidays and shifts of representatives over HTTP."""
