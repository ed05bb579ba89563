"""Referrals: rewards for newcomers who sign up with a referral code, and for their referrers."""
