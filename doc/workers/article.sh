#!/bin/sh
# article.sh URL: has the comments of a new article fetched 12, 24 and 48 hours from now.
for hours in 12 24 48; do
    lcc-job add --key "$1 $hours" --after "${hours}h" -- comments.sh "$1" || exit 1
done
lcc-job status "comments are fetched three times"
