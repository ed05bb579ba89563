"""Tools that the language model may call, all under the rights of the person."""
