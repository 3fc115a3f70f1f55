"""What every process of ours needs before it can ask anything of Temporal.

Here are the settings (`config`), the connection with its converters, the payload store, encryption and secrets, the
embedded server, the supervisor of worker processes, the health check, and the replay of histories.

Entry points: `config.load_config`, `connection.connect`, `payloads.storage`, `secrets`, `embedded`, `supervisor`.
It imports the language and the protocol, and nothing of workflows, activities, client, server or cli: a worker loads
it, and so does every command.
Traps: a module here is loaded by each `holdfast` command, so that a heavy import costs all of them; `supervisor` and
`probe` load nothing of Temporal, as they run beside or before a worker.
"""
