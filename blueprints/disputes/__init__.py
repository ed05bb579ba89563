"""Routes of disputes: parties, findings and rulings."""
