"""Record what a running stack answers, so that two versions of the service can be compared.

``record`` plays a fixed script of requests and commands against a fresh stack and writes each answer in a normal
form. ``compare`` shows where two recordings differ. Nothing of the service is imported: it may move as it likes.
"""
