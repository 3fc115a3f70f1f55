"""Values that clients, workflows and activities exchange. Imports `blueprint`, and nothing of Temporal."""
