"""Limits on what one evaluation may cost. Every size is checked before the value is built."""

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.values import Undefined, kind, number, require_defined, write_text
from holdfast.blueprint.json_values import JSON, JSONObject

# They take 0.02 s. Temporal gives workflow code two seconds, then fails the task, and so each of its replays.
MAX_STEPS = 100_000
MAX_TEXT = 256 * 1024  # characters of a text that an expression or a template builds
MAX_ITEMS = 100_000
MAX_VALUE = 8 * 1024 * 1024  # characters of JSON, of a list or object an expression built
MAX_LEVELS = 100


class Bounds:
    """The budget of one call of `evaluate` or `render`.

    Work in Python pays a step an element; work in C pays one for 16 elements or 64 characters.
    """

    __slots__ = ("most_text", "remaining", "text_per_step", "weights")

    def __init__(self) -> None:
        self.remaining = MAX_STEPS
        self.allow_text(copied=False)
        self.weights: dict[int, tuple[JSON, int]] = {}  # by id; the value is kept, so its id stays its own

    def allow_text(self, *, copied: bool) -> None:
        """Set how long a text may be: one whose parts are only copied is bounded as the values are that it copies."""
        self.most_text, self.text_per_step = (MAX_VALUE, 1 << 12) if copied else (MAX_TEXT, 1 << 6)

    def pay(self, steps: int) -> None:
        """Spend evaluation steps. Raises `ExpressionError` when none remain."""
        self.remaining -= steps
        if self.remaining < 0:
            raise ExpressionError(f"takes more than {MAX_STEPS:,} evaluation steps")

    def room_for_text(self, size: int) -> None:
        if size > self.most_text:
            limit = f"{MAX_VALUE >> 20} MiB" if self.most_text == MAX_VALUE else f"{MAX_TEXT >> 10} KiB"
            raise ExpressionError(f"gives a text of over {limit}")
        self.pay(size // self.text_per_step)

    def room_for_items(self, count: int) -> None:
        if count > MAX_ITEMS:
            raise ExpressionError(f"gives a list of over {MAX_ITEMS:,} elements")
        self.pay(count >> 4)

    def room_for_value(self, value: object) -> None:
        """Check the size of a value as JSON: parts are shared, so a value small in memory can be endless."""
        if self.weigh(value) > MAX_VALUE:
            raise ExpressionError(f"gives a value of over {MAX_VALUE >> 20} MiB")

    def weigh(self, value: object, level: int = 0) -> int:
        """Return the least number of characters `value` has as JSON; a part that occurs often is walked once."""
        if isinstance(value, str):
            return len(value) + 2
        if isinstance(value, (dict, list)):
            cached = self.weights.get(id(value))
            return cached[1] if cached else self._weigh_parts(value, level)
        if isinstance(value, (int, float)):
            number(value)
        return 1

    def _weigh_parts(self, value: JSONObject | list[JSON], level: int) -> int:
        if level > MAX_LEVELS:
            raise ExpressionError(f"a value is nested deeper than {MAX_LEVELS} levels")
        total = 2 + len(value)
        if isinstance(value, dict):
            total += sum(map(len, value)) + 3 * len(value)
        for part in value.values() if isinstance(value, dict) else value:
            total += self.weigh(part, level + 1)
        self.weights[id(value)] = (value, total)
        return total

    def display(self, value: object) -> str:
        """Return the display form of a value, if there is room for it."""
        if isinstance(value, str):
            return value
        self.room_for_text(self.weigh(require_defined(value)))
        return write_text(value)

    def text(self, value: object) -> str:
        """Return the text, paid for being read. Raises `ExpressionError` for any other value."""
        if not isinstance(value, str):
            raise ExpressionError(f"needs text, not {kind(value)}", "`| string` makes text of a value")
        self.pay(len(value) >> 6)
        return value

    def elements(self, value: object) -> list[JSON]:
        """Return what a loop over `value` visits: elements of a list, keys of an object, characters of a text."""
        match value:
            case list():
                self.pay(len(value) >> 4)
                return value
            case dict() | str():
                self.room_for_items(len(value))
                return list(value)
            case Undefined():
                value.refuse()
        raise ExpressionError(f"cannot go through {kind(value)}", "a list, an object or a text is needed")

    def built_text(self, text: str) -> str:
        """Return a text whose size was not known before it was built, if it is within the limit."""
        self.room_for_text(len(text))
        return text
