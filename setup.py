"""What pyproject.toml cannot express of the distribution: the pages of docs/, and a description without dead links.

`holdfast docs` prints the pages. The description is the README; its links lead to files of the repository, which a
package index does not have.
"""

import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HOME = Path(__file__).parent
LINK_INTO_THE_REPOSITORY = r"(!?)\[([^\]]*)\]\((?!https?://)[^)]*\)"


def describe(readme: str) -> str:
    """Return the README with the text of each link into the repository in place of the link, and without pictures."""
    return re.sub(LINK_INTO_THE_REPOSITORY, lambda link: "" if link[1] else link[2], readme)


class BuildWithPages(build_py):
    """Builds the package, and copies the pages of docs/ into it."""

    def run(self) -> None:
        """See base class; an editable installation has the pages beside the package."""
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "holdfast" / "docs"
            target.mkdir(parents=True, exist_ok=True)
            for page in sorted((HOME / "docs").glob("*.md")):
                shutil.copy(page, target)


setup(
    long_description=describe((HOME / "README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
    cmdclass={"build_py": BuildWithPages},
)
