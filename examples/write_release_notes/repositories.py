"""What has happened in three repositories since the last release, and where their packages are published."""

from holdfast import tool

CHANGES = {
    "server": [("Ana", "faster start"), ("Ben", "fewer errors")],
    "client": [("Ana", "a new prompt")],
    "docs": [("Cleo", "a page on loops")],
}
SIZES = {"server": 40, "client": 12, "docs": 3}


@tool(idempotent=True)
def merged_changes(package: str) -> list[str]:
    """What has changed in a package."""
    return [f"{package}: {what}" for _, what in CHANGES[package]]


@tool(idempotent=True)
def change_authors(package: str) -> list[str]:
    """Who has changed a package."""
    return [who for who, _ in CHANGES[package]]


@tool(idempotent=True)
def package_size(package: str) -> int:
    """How large a package is, in MB."""
    return SIZES[package]


@tool
def publish_package(package: str, version: str) -> str:
    """Publishes a package; it stays published."""
    return f"{package} {version}"
