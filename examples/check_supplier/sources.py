"""Sources that tell about suppliers; real ones would be asked over the network."""

from holdfast import tool

REGISTER = {"AT1": {"name": "Oak and Sons Ltd", "address": "Mill Lane 3"}}
WEBSITES = {"AT1": {"name": "OAK!", "phone": "0123", "address": "the mill"}}
RATINGS = {("south", "AT1"): "A-"}


@tool(idempotent=True)
def register_entry(number: str) -> dict[str, str]:
    """What the commercial register says."""
    return REGISTER[number]


@tool(idempotent=True)
def website_entry(number: str) -> dict[str, str]:
    """What the supplier says of itself."""
    return WEBSITES[number]


@tool(idempotent=True)
def listed_price(number: str) -> float:
    """The price in the supplier's list."""
    return 90.0


@tool(idempotent=True)
def offered_price(number: str) -> float:
    """The price in the supplier's offer."""
    return 75.0


@tool(idempotent=True)
def credit_rating(agency: str, number: str) -> str:
    """How an agency rates the supplier."""
    if (agency, number) not in RATINGS:
        raise ValueError(f"{agency} does not know {number}")
    return RATINGS[agency, number]


@tool(idempotent=True)
def on_no_list(name: str) -> bool:
    """True for a name that is on no list of sanctions; for one that is, it fails."""
    if "Smuggler" in name:
        raise ValueError(f"{name} is on a list of sanctions")
    return True
