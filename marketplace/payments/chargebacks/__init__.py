"""Chargebacks: bank disputes of charges, and the losses that they leave."""
