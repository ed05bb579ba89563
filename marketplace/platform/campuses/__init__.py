"""Campuses with e-mail domains, pickup hubs and public holidays."""
