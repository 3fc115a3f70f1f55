"""What processes say to each other: values only. Imports the blueprint, and no Temporal."""
