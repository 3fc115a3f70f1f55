"""Plain words for expressions, templates, schemas and amounts. Kinds describe themselves with them."""
