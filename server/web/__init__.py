"""The web server: an inbox in the browser and a JSON API, over `Runs`. `holdfast serve` runs it.

A request passes the protections (`security`), the sign-in (`sign_in`, `provider`), which asks the `gate` who it comes
from, and reaches a page (`pages`), a call of the API (`api`), a webhook (`hooks`) or the codec server (`codec`). What
requests share is in `site`; what works beside them, in `background`; what is kept of people, in `credentials`.

Entry points: `app.create_app`, `listener.listen`, `background.run_background`, `hooks.load_hooks`.
It imports notices, the record and what is below them; `addresses` imports no library, as commands load it.
Traps: every page and call that names a run begins with `site.permit`, or has its `needs` in its row, and one that names
a question reads it through `runs.lists.find_question` or `find_open`; `Site.runs` sees the runs of everybody; a body is
measured before it is parsed (`requests`); an error that a request can cause is in `problems`, else it is ours.
"""
