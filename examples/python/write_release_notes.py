"""The blueprint write_release_notes in Python: steps that say what they need, and run as soon as they can."""

from pydantic import BaseModel

from holdfast.build import Pipeline, agent, ask, context, each, parallel, previous, step


class Release(BaseModel):
    version: str


PACKAGES = ["server", "client", "docs"]
writer = agent(
    "writer",
    model="scripted:../write_release_notes/replies.yaml",
    instructions="Write a short paragraph about these changes.",
)

with Pipeline(
    "write_release_notes", description="Write the notes of a release.", inputs=Release, max_parallel=3
) as write_release_notes:
    version = write_release_notes.input.version
    with parallel("changes", reduce="concat") as changes:
        for package in PACKAGES:
            with changes.branch(package):
                step(f"of_{package}", "merged_changes", package)
    with parallel("authors", reduce="dedupe") as authors:
        for package in PACKAGES:
            with authors.branch(package):
                step(f"by_{package}", "change_authors", package)
    with parallel("sizes", merge_strategy="context_update", reduce="values") as sizes:
        for package in PACKAGES[:2]:
            with sizes.branch(package):
                step(f"size_of_{package}", "package_size", package, sink_to=context.sizes[package])
    with parallel("links", reduce="union") as links:
        with links.branch("packages"):
            step("packages", input={"server": f"/server-{version}", "client": f"/client-{version}"})
        with links.branch("docs"):
            step("manual", input={"docs": f"/docs/{version}"})
    text = changes.output.filter("join", "; ")
    with parallel("words", needs=[changes], input=text, reduce="last", on_branch_failure="ignore") as words:
        with words.branch("model"):
            step("write", writer)
        with words.branch("person"):
            ask.input("say", f"In your words: {previous}", timeout="1d", on_timeout="fail")
    with each("publish", PACKAGES, needs=[words, authors, sizes, links], on_item_error="fail") as publish:
        step(
            "upload",
            "publish_package",
            arguments={"package": publish.item, "version": version},
            tool_errors={"authorization": "fail", "missing": "fail", "timeout": {"retry": 1}},
        )
    write_release_notes.gives(
        {
            "text": words.output,
            "thanks": authors.output.filter("join", ", "),
            "size": sizes.output.filter("sum"),
            "links": links.output,
            "published": publish.output,
        }
    )
