"""A service to connect to."""

from holdfast import secret, tool


@tool
def connect_crm(CRM_TOKEN: str, file_paths: list[str] | None = None, urls: list[str] | None = None) -> str:
    """Connects with the token, which only this tool gets to see."""
    known = len(file_paths or []) + len(urls or [])
    return f"connected with the token that ends in {secret(CRM_TOKEN)[-4:]}, and {known} places to look at"
