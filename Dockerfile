# The worker: `docker build -t signoff-worker .`
ARG PYTHON_VERSION=3.13
FROM python:${PYTHON_VERSION}-slim

# The two of malloc: memory that many threads freed goes back to the system.
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    MALLOC_ARENA_MAX=2 \
    MALLOC_TRIM_THRESHOLD_=131072

WORKDIR /app

# A layer of its own, built again only when a version changes.
COPY requirements.lock ./
RUN pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.lock

COPY . .

RUN useradd --create-home --uid 10001 signoff
USER signoff

# SIGTERM, which a container gets when it is stopped, reaches Python itself: no shell between.
CMD ["python", "worker.py"]
