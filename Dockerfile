# One image for every role: `headgate serve`, `headgate work MODULE`, `headgate up`.
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY lab lab
COPY console console
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .
COPY requirements.txt ./

FROM python:3.11-slim
RUN useradd --system --create-home --home-dir /var/lib/headgate headgate
COPY --from=build /src/requirements.txt /tmp/requirements.txt
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --require-hashes -r /tmp/requirements.txt \
 && pip install --no-cache-dir --no-deps /wheels/*.whl \
 && rm -r /wheels /tmp/requirements.txt
USER headgate
WORKDIR /var/lib/headgate
EXPOSE 8000
# Signals reach the process itself, so a stop hands back what runs.
ENTRYPOINT ["headgate"]
CMD ["serve", "--host", "0.0.0.0", "--log-json"]
