#!/bin/sh
# Starts the MCP server, or `token` and `settings` of `graphalgo mcp`, in a container.
#
#   GRAPHALGO_DSN        the database
#   GRAPHALGO_MCP_…      the settings; `settings` lists them
#
# Where no key for tokens is given, a secret is made on the first start and kept in
# the volume.
set -eu

secret=/var/lib/graphalgo/secret
case "${GRAPHALGO_MCP_JWT_SECRET:-}${GRAPHALGO_MCP_JWT_SECRET_FILE:-}${GRAPHALGO_MCP_JWKS_FILE:-}${GRAPHALGO_MCP_JWT_PUBLIC_KEY:-}${GRAPHALGO_MCP_JWT_PUBLIC_KEY_FILE:-}" in
    '')
        if [ ! -s "$secret" ]; then
            umask 077
            head -c 32 /dev/urandom | base64 > "$secret.new"
            mv "$secret.new" "$secret"
        fi
        export GRAPHALGO_MCP_JWT_SECRET_FILE="$secret"
        ;;
esac
exec graphalgo mcp "$@"
