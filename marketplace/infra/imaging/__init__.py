"""Pictures that anybody may send: told by their content, drawn anew in a process of its own."""
