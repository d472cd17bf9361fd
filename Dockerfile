# One image for every role: `headgate serve`, `headgate work MODULE`, `headgate up`.
# A tag can be moved to another image. To be sure of the base, pass the digest of one that you trust:
#   docker build --build-arg BASE=python:3.11-slim@sha256:… .
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
WORKDIR /src
# What makes the wheel comes from a lock as well; the console's packages have their hashes in its package-lock.json.
COPY requirements-build.txt ./
RUN pip install --no-cache-dir --no-deps --require-hashes -r requirements-build.txt
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY lab lab
COPY console console
COPY src src
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .

FROM ${BASE}
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/headgate headgate && chmod 700 /var/lib/headgate
COPY requirements.txt /tmp/requirements.txt
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-deps --require-hashes -r /tmp/requirements.txt \
 && pip install --no-cache-dir --no-deps /wheels/*.whl \
 && rm -r /wheels /tmp/requirements.txt
# Nothing is written but the store in /var/lib/headgate and what handlers write into /tmp: the rest may be read-only.
ENV PYTHONDONTWRITEBYTECODE=1
# A number, so that an orchestrator can see that it is not root.
USER 10001
WORKDIR /var/lib/headgate
EXPOSE 8000
# Signals reach the process itself, so a stop hands back what runs.
ENTRYPOINT ["headgate"]
CMD ["serve", "--host", "0.0.0.0", "--log-json"]
