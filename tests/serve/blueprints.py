"""A blueprint for each kind of question, as the tests and the pictures of the pages use them."""

LONG = "\n\n".join(f"Paragraph {n}. " + "The quick brown fox jumps over the lazy dog. " * 8 for n in range(25))

BLUEPRINTS = {
    "text": "steps: [{kind: hitl, name: tone, message: 'How should it sound?'}]",
    "clarify": """
steps:
  - kind: hitl
    name: tone
    ask: clarification
    message: "Which **tone** fits the invitation?\\n\\n- it goes to *partners*\\n- see [the style guide](https://a.example/style)"
    options:
      - {id: warm, label: Warm, description: As to friends, recommended: true}
      - {id: formal, label: Formal, description: As to a ministry}
""",
    "decide": """
steps:
  - kind: hitl
    name: roll_out
    ask: decision
    message: Roll out version 4.2 now?
    input: {service: billing, tests: passed, customers: 1240}
    assignees: [user:ana, 'group:editors', user:bob]
    quorum: 2
    timeout: 2d
    on_timeout: default
    default: wait
    options:
      - {id: now, label: Now, risk: high, cost: 40 EUR, time: 10 min, risks: ['no one on call', 'month end']}
      - {id: wait, label: Wait for Monday, risk: low, time: 3 days, recommended: true}
""",
    "permit": """
steps:
  - kind: hitl
    name: may
    ask: permission
    message: Delete the old backups?
    input: {tool: delete_files, args: {folder: /srv/backups/2024, older_than: 90d, dry_run: false}}
""",
    "review": """
steps:
  - kind: hitl
    name: check
    ask: review
    message: Is the letter right?
    input:
      subject: Your invitation
      body: "Dear Ms Sato,\\nwe would like to see you."
      copies: 3
      tags: [party, office]
    input_schema:
      type: object
      required: [subject, body]
      properties:
        subject: {type: string}
        body: {type: string, maxLength: 5000}
        copies: {type: integer, minimum: 1}
        tags: {type: array, items: {type: string}}
""",
    "form": """
steps:
  - kind: hitl
    name: booking
    message: Please fill in the booking.
    input_schema:
      type: object
      required: [name, from, room]
      properties:
        name: {type: string, title: Name of the guest, description: As in the passport}
        from: {type: string, format: date, title: First night}
        nights: {type: integer, minimum: 1, default: 2}
        room: {enum: [single, double, suite]}
        breakfast: {type: boolean}
        extras: {type: array, uniqueItems: true, items: {enum: [parking, cot, late check-out]}}
        code: {type: string, pattern: '^[A-Z]{3}[0-9]+$'}
        notes: {type: string, maxLength: 2000}
        address:
          type: object
          required: [city]
          properties: {street: {type: string}, city: {type: string}}
        guests:
          type: array
          items: {type: object, required: [name], properties: {name: {type: string}, age: {type: integer}}}
""",
    "secret": """
steps:
  - kind: hitl
    name: token
    ask: secret
    message: The token of the mail server
    input_schema:
      type: object
      required: [TOKEN]
      properties:
        TOKEN: {type: string, description: Found in the console of the provider}
        PROXY: {type: string}
""",
    "login": """
steps:
  - kind: hitl
    name: shop
    ask: secret
    message: How does the shop's database let us in?
    input_schema:
      type: object
      required: [PASSWORD, user, port]
      properties:
        PASSWORD:
          {type: string, title: Password, minLength: 8, errorMessage: Eight characters or more., placeholder: from us}
        user: {type: string, secret: false, title: User, minLength: 3, placeholder: shop-admin}
        port: {type: integer, secret: false, title: Port, maximum: 65535}
output: "{{ steps.shop.output }}"
""",
    "hold": "steps: [{kind: hitl, name: hold, ask: hold, message: The agent waits for your go-ahead.}]",
    "word": "steps: [{kind: hitl, name: x, message: Tone?}]",
    "long": "steps: [{kind: hitl, name: x, message: '" + LONG.replace("\n", "\\n") + "'}]",
    "names": """
steps:
  - kind: hitl
    name: naming
    message: هل نرسل الدعوة إلى السيدة ليلى؟ — 佐藤さんに送りますか?
    assignees: ['user:ليلى', 'user:佐藤', user:ana]
""",
}
