"""Figures of stores by day: sales, buyers, traffic and unmet demand, from roll-up tables."""
