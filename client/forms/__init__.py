"""A question as the fields of a form: a terminal asks for them one by one, a page shows them together."""

from holdfast.client.forms.controls import (
    ABSENT,
    HIDDEN_PREFIX,
    FormControl,
    Selectable,
    Widget,
    make_control,
    make_group,
)
from holdfast.client.forms.prompted import FormField, list_fields, make_example, shown_default
from holdfast.client.forms.submitted import (
    Submission,
    Texts,
    change_list,
    check_typed,
    first_text,
    item_count,
    json_typed,
    read_control,
    shows,
    texts_of_value,
)

__all__ = [
    "ABSENT",
    "HIDDEN_PREFIX",
    "FormControl",
    "FormField",
    "Selectable",
    "Submission",
    "Texts",
    "Widget",
    "change_list",
    "make_control",
    "make_example",
    "list_fields",
    "first_text",
    "make_group",
    "item_count",
    "json_typed",
    "check_typed",
    "read_control",
    "shown_default",
    "shows",
    "texts_of_value",
]
