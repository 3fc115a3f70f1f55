#!/bin/sh
# Makes the namespace, keeps closed runs for 90 days, registers Holdfast's search attributes.
# Doing it again changes nothing. TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE say where; needs only the `temporal` command.
set -eu

address=${TEMPORAL_ADDRESS:-localhost:7233}
namespace=${TEMPORAL_NAMESPACE:-default}
retention=${RETENTION:-90d}

# The server answers a little before its namespaces do, and learns of a new one a little later.
again() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt 60 ] || { echo "gave up: $*" >&2; exit 1; }
        sleep 1
    done
}

on() { temporal operator "$@" --address "$address"; }

healthy() { on cluster health >/dev/null 2>&1; }

namespaced() {
    on namespace describe --namespace "$namespace" >/dev/null 2>&1 ||
        on namespace create --namespace "$namespace" --retention "$retention" >/dev/null 2>&1
}

retained() { on namespace update --namespace "$namespace" --retention "$retention" >/dev/null 2>&1; }

registered() { # NAME TYPE
    on search-attribute list --namespace "$namespace" 2>/dev/null | grep -qw "$1" ||
        on search-attribute create --namespace "$namespace" --name "$1" --type "$2" >/dev/null 2>&1
}

again healthy
again namespaced
again retained
again registered HoldfastBlueprint Keyword
again registered HoldfastWaitingFor KeywordList
echo "namespace $namespace is ready"
