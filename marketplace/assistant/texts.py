"""Texts of the assistant."""

BUDGET_SPENT = "You have used the assistant's budget of today. It is full again at midnight in Nigeria."
NOT_CONFIGURED = "The assistant is not available on this installation."
UNTITLED = "New conversation"
