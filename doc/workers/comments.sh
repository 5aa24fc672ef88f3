#!/bin/sh
# comments.sh URL: has a page fetched again, if it has changed.
lcc-job notify --op recheck "$1"
