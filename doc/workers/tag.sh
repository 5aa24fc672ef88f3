#!/bin/sh
# tag.sh KEY WORD...: stores which of the words a page has.
key=$1
shift
curl --fail --silent --show-error --output page.html "$LCC_CU/content/$key" || exit 1
tags=
for word in "$@"; do
    grep --quiet --ignore-case --word-regexp --fixed-strings -e "$word" page.html &&
        tags="$tags${tags:+, }\"$word\""
done
printf '{"id": "tags of %s", "tags": [%s]}' "$key" "$tags" | lcc-job store -
lcc-job log "tags: ${tags:-none}"
