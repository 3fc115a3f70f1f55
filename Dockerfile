# The worker. Mount your holdfast.toml and your tools into /app, or build on this image.
FROM python:3.12-slim

RUN useradd --create-home --uid 10001 holdfast
WORKDIR /opt/holdfast
COPY pyproject.toml constraints.txt README.md LICENSE worker.py ./
COPY blueprint blueprint
COPY protocol protocol
COPY workflows workflows
COPY activities activities
COPY client client
RUN pip install --no-cache-dir --constraint constraints.txt .

USER holdfast
WORKDIR /app
ENV HOLDFAST_HEALTH_PORT=8088 PYTHONUNBUFFERED=1
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 CMD ["python", "-P", "-m", "worker", "--health"]
CMD ["python", "-P", "-m", "worker"]
