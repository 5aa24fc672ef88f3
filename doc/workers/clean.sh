#!/bin/sh
# clean.sh KEY: stores the plain text of a page.  [manager] environment has LCC_CU, the address of
# lcc-cu, such as http://127.0.0.1:8080.
curl --fail --silent --show-error --output page.html "$LCC_CU/content/$1" || exit 1
sed -e 's/<[^>]*>/ /g' -e 's/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g' page.html |
    tr -s ' \t\r\n' ' ' | sed -e 's/[\\"]/\\&/g' > text
printf '{"id": "%s", "text": "%s"}' "$1" "$(cat text)" | lcc-job store -
