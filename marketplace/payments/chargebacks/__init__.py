"""Chargebacks: bank disputes of charges and the resulting losses."""
