# The MCP server: graphalgo's command line with what it needs to serve agents.
#
#   docker build -f docker/mcp.Dockerfile -t graphalgo-mcp .
#
# It holds no database. Unlike the image with PostgreSQL it takes Python packages
# from a package index: PIP_INDEX_URL names another one.
ARG SUITE=trixie

FROM debian:${SUITE}-slim AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY graphalgo graphalgo
COPY plpy plpy
COPY sql sql
COPY docker docker
ARG PIP_INDEX_URL
RUN python3 -m venv /opt/graphalgo \
    && /opt/graphalgo/bin/pip install --no-cache-dir '.[mcp]'

FROM debian:${SUITE}-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 998 --user-group --home-dir /var/lib/graphalgo --create-home graphalgo \
    && chmod 0700 /var/lib/graphalgo
COPY --from=build /opt/graphalgo /opt/graphalgo
COPY docker/mcp-entrypoint.sh /usr/local/bin/graphalgo-mcp
ENV LANG=C.UTF-8 \
    PATH=/opt/graphalgo/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    GRAPHALGO_MCP_JWT_AUDIENCE=graphalgo
USER graphalgo
# The secret that tokens are signed with, where none is given.
VOLUME /var/lib/graphalgo
EXPOSE 8765
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s --retries=5 CMD ["python3", "-c", \
    "import urllib.request as r; r.urlopen('http://127.0.0.1:8765/readyz', timeout=4)"]
ENTRYPOINT ["graphalgo-mcp"]
CMD ["--transport", "http", "--host", "0.0.0.0", "--port", "8765"]
