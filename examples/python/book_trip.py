"""The blueprint book_trip in Python: steps that are undone, what is done in any case, deadlines."""

from pydantic import BaseModel

from holdfast.build import Pipeline, ask, block, context, loop, output, step


class Trip(BaseModel):
    city: str


def cancel(**more: object) -> dict[str, object]:
    return {"uses": "cancel_travel", **more}


with Pipeline(
    "book_trip", description="Book a flight and a hotel, and keep both or neither.", inputs=Trip, deadline="30d"
) as book_trip:
    city = book_trip.input.city
    with block("booking", deadline="3d", on_deadline="fail", on_error="continue", on_undo_error="continue") as booking:
        patient = cancel(arguments={"id": output.id}, timeout="30s", retry={"attempts": 5})
        flight = step("flight", "book_travel", arguments={"what": f"flight to {city}"}, undo=patient)
        hotel = step(
            "hotel", "book_travel", arguments={"what": f"hotel in {city}"}, undo=cancel(input={"id": output.id})
        )
        ask.permission("sure", f"Keep {flight.output.id} and {hotel.output.id}?", on_decline="fail")
        with booking.in_any_case() as last:
            step("outcome", input=last.error.then(last.error.type, "booked"), sink_to=context.outcome)
    with loop("packing", when=context.outcome == "booked", deadline="14d", on_deadline="finish") as packing:
        ask.input("pack", "What else must be packed?")
        packing.until(output == "nothing")
    book_trip.gives(context.outcome)
