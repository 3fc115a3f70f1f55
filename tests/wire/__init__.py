"""Fakes of the providers' APIs, as strict as the real ones are documented, and what runs against them."""
