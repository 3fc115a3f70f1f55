"""What a help desk works with: a handbook, and accounts."""

from holdfast import tool


@tool
def handbook(question: str) -> str:
    """What the handbook says."""
    return "A password is reset after a call; an account is closed by its owner only."


@tool
def reset_password(account: str) -> str:
    """Resets a password; gives the first one."""
    return f"{account} has a new password"


@tool
def note_for_later(text: str) -> str:
    """Leaves a note for whoever is at the desk next."""
    return "noted"


@tool
def close_account(account: str) -> str:
    """Closes an account for good."""
    return f"{account} is closed"
