"""Two kinds of questions of this project: a rating with reasons, and an environment variable."""

from typing import Any

from holdfast import QuestionKind, question_kind


@question_kind
class Rating(QuestionKind):
    """Stars, with the reasons for them."""

    kind = "rating"
    output = "content.stars"
    summary = "{{ content.stars }} stars{% if content.why is defined %}: {{ content.why }}{% endif %}"

    stars: int = 5
    reasons: list[str] = []

    def schema(self) -> dict[str, Any]:
        reasons = {"type": "array", "items": {"enum": self.reasons}, "uniqueItems": True}
        return {
            "type": "object",
            "title": f"a rating of 1 to {self.stars} stars",
            "x-hint": f"as many stars as you give it, such as {'*' * self.stars}, or a form",
            "required": ["stars"],
            "properties": {
                "stars": {"type": "integer", "minimum": 1, "maximum": self.stars, "title": "Stars"},
                **({"reasons": {**reasons, "title": "Reasons"}} if self.reasons else {}),
                "why": {"type": "string", "title": "In your words", "x-widget": "long_text"},
            },
            "additionalProperties": False,
        }

    def read(self, text: str) -> Any:
        stars, _, why = text.partition(" ")
        return None if stars.strip("*") or not stars else {"stars": len(stars), **({"why": why} if why else {})}


@question_kind
class EnvVar(QuestionKind):
    """The value of an environment variable, which is secret, and where more about it is told."""

    kind = "env_var"
    hidden = True

    variable: str
    placeholder: str = ""

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "title": f"the environment variable {self.variable}",
            "required": [self.variable],
            "properties": {
                self.variable: {"type": "string", "writeOnly": True, "x-placeholder": self.placeholder},
                "file_paths": {
                    "type": "array",
                    "items": {"type": "string", "pattern": "^[^\\s]+$"},
                    "title": "Files",
                    "description": "In which it is used",
                    "x-placeholder": "src/settings.py",
                },
                "urls": {
                    "type": "array",
                    "items": {"type": "string", "format": "uri"},
                    "title": "Links",
                    "description": "To pages that tell how to get one",
                    "x-placeholder": "https://crm.example/keys",
                },
            },
        }
