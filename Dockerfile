# A Holdfast worker. Mount your holdfast.toml and your tools at /app, or build on this image.
FROM python:3.12-slim

RUN useradd --create-home --uid 10001 holdfast
WORKDIR /opt/holdfast
COPY pyproject.toml constraints.txt README.md LICENSE worker.py ./
COPY blueprint blueprint
COPY protocol protocol
COPY workflows workflows
COPY activities activities
COPY client client
COPY testkit testkit
RUN pip install --no-cache-dir --constraint constraints.txt .

USER holdfast
WORKDIR /app
ENV HOLDFAST_HEALTH_PORT=8088 PYTHONUNBUFFERED=1
# -P, and `holdfast worker` instead of `python -m worker`: a folder `client` or `workflows` in /app is not taken for ours.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["python", "-P", "-m", "worker", "--health"]
CMD ["holdfast", "worker"]
