#!/bin/sh
# Makes the namespace, keeps closed runs for 90 days at least, registers Holdfast's search attributes.
# Doing it again changes nothing. Needs the `temporal` command, and its variables: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, …
set -eu

namespace=${TEMPORAL_NAMESPACE:-default}
days=90

# The server answers a little before its namespaces do, and learns of a new one a little later.
again() {
    tries=1
    until said=$("$@" 2>&1); do
        [ "$tries" -lt 60 ] || { echo "gave up: $*: $said" >&2; exit 1; }
        tries=$((tries + 1))
        sleep 1
    done
}

here() { # NOUN VERB OPTION…
    noun=$1 verb=$2
    shift 2
    temporal operator "$noun" "$verb" --namespace "$namespace" "$@"
}

made() { here namespace describe || here namespace create --retention "${days}d"; }

# Only ever raised: what was kept longer stays.
retained() {
    seconds=$(here namespace describe --output json | sed -n 's/.*"workflowExecutionRetentionTtl": *"\([0-9]*\)s.*/\1/p')
    [ "${seconds:-0}" -ge $((days * 86400)) ] || here namespace update --retention "${days}d"
}

registered() { # NAME TYPE
    here search-attribute create --name "$1" --type "$2" &&
        here search-attribute list | grep -Eq "^ *$1 +$2 *\$"
}

again temporal operator cluster health
again made
again retained
again registered HoldfastBlueprint Keyword
again registered HoldfastWaitingFor KeywordList
again registered HoldfastQuestions KeywordList
again registered HoldfastSince Datetime
again registered HoldfastDeadline Datetime
again registered HoldfastEvents KeywordList
again registered HoldfastAccess Text
echo "namespace $namespace is ready"
