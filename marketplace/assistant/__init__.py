"""The assistant: titles of threads and suggested replies of support, written by a language model."""
