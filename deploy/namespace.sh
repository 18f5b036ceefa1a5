#!/bin/sh
# Creates the namespace and the search attributes of Signoff, once the server answers. Safe to run again.
set -eu

: "${TEMPORAL_ADDRESS:?}" "${TEMPORAL_NAMESPACE:?}"

# The server may still be starting, and takes a while to notice a new namespace.
patiently() {
    attempts=60
    until said=$("$@" 2>&1 </dev/null); do
        attempts=$((attempts - 1))
        if [ "$attempts" -eq 0 ]; then
            echo "$TEMPORAL_ADDRESS does not do: $*: $said" >&2
            exit 1
        fi
        sleep 1
    done
    echo "$said"
}

patiently temporal operator cluster health

if ! temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1; then
    temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention 72h
fi

# The same list as in devserver.py. A run started before they are there cannot go on.
while read -r name type; do
    patiently temporal operator search-attribute create \
        --namespace "$TEMPORAL_NAMESPACE" --name "$name" --type "$type"
done <<ATTRIBUTES
SignoffStatus Keyword
SignoffAgent Keyword
SignoffPending KeywordList
SignoffApprovers KeywordList
SignoffWaitingSince Datetime
SignoffPendingCount Int
ATTRIBUTES
