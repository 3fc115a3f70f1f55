# A Holdfast worker, and the inbox. Mount your holdfast.toml and your tools at /app, or build on this image.
FROM python:3.12-slim

RUN useradd --create-home --uid 10001 --user-group holdfast
WORKDIR /opt/holdfast
# The whole tree at once: holdfast/ holds links to the folders beside it.
COPY . .
RUN pip install --no-cache-dir --constraint constraints.txt ".[serve,postgres,notify,mcp]"
# The state folder, and that of secrets: a volume that is new gets its owner from here.
RUN install --directory --owner=holdfast --mode=0700 /var/lib/holdfast /var/lib/secrets

USER holdfast
WORKDIR /app
ENV HOLDFAST_HOME=/var/lib/holdfast HOLDFAST_HEALTH_PORT=8088 PYTHONUNBUFFERED=1
# -P: a folder `holdfast` in /app is not taken for the installed package.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["python", "-P", "-m", "holdfast.runtime.probe"]
CMD ["holdfast", "worker"]
