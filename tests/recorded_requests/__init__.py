"""Record the responses of a running stack, to compare two versions of the service.

``record`` plays a fixed script of requests and commands against a fresh stack and writes each response in a normal
form. ``compare`` lists the differences of two recordings. The package imports no module of the service, so that
refactoring does not affect recordings.
"""
