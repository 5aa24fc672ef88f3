#!/bin/bash
# Run in a root of its own, as root of namespaces of its own: /debs/before.deb and /debs/after.deb are installed, started,
# upgraded, removed and purged.  systemd does not run there: what the units start is started by this script.
set -euxo pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
LOG=/root/log

all_files() { find /etc /usr /var /opt /srv /lib/systemd -not -path '/var/lib/dpkg/*' -not -path '/var/log/*' \
    -not -path '/var/cache/*' -not -path '/var/lib/systemd/*' | sort; }
as_lcc() { setpriv --reuid=lcc --regid=lcc --clear-groups env -C / HOME=/var/lib/lcc "$@"; }
admin() { as_lcc lcc-admin --config /etc/lcc/lcc.toml "$@"; }
until_it() { for _ in $(seq 600); do if eval "$1"; then return; fi; sleep 0.2; done; cat $LOG; exit 1; }
start() {
    : > $LOG
    # shellcheck disable=SC2046
    setpriv --reuid=lcc --regid=lcc --clear-groups env -C / HOME=/var/lib/lcc \
        $(sed -n 's/^ExecStart=//p' /lib/systemd/system/lcc.service) >> $LOG 2>&1 &
    pid=$!
    until_it 'grep -q "uns uns has connected" $LOG'
}
stop() { kill $pid; wait $pid || true; }
queued() { admin queue --urls --provider 1 --json | wc -l; }

ip link set lo up
cd /root
all_files > files.before

# Installed.
dpkg -i /debs/before.deb
[ "$(stat -c '%a %U:%G' /etc/lcc/lcc.toml)" = "640 root:lcc" ]
[ "$(stat -c '%a %U:%G' /var/lib/lcc)" = "700 lcc:lcc" ]
[ "$(dpkg-query -W -f '${Conffiles}' lcc | awk '{print $1}' | sort | paste -sd' ')" = \
    "/etc/lcc/lcc.toml /etc/logcheck/ignore.d.server/lcc" ]
for name in lcc-admin lcc-export lcccp; do
    [ -s /usr/share/man/man1/$name.1.gz ]
    [ -s /usr/share/zsh/vendor-completions/_$name ]
    [ -s /usr/share/fish/vendor_completions.d/$name.fish ]
    bash -c ". /usr/share/bash-completion/completions/$name && complete -p $name"
done

# Started: nothing in its log that logcheck would report.
start
admin status
sed 's/^/Nov 24 12:00:00 host lcc[7]: /' $LOG > syslog
if grep -Evf /etc/logcheck/ignore.d.server/lcc syslog; then exit 1; fi  # "set -e" does not see a "!"

# Work is queued: its site is down.
admin provider add --root http://127.0.0.1:8000/ --allow-private --json > added
(umask 077; sed 's/.*"password": "\([^"]*\)".*/\1/' added > password)
mkdir /srv/site
for name in a b c; do echo "<p>$name" > /srv/site/$name.html; done
(cd /srv/site && file2url ./*.html | lcccpstate --statefile=/root/state | lcccp --uns=127.0.0.1:9000 --pid=1 \
    --pwd-file=/root/password --urlprefix=http://127.0.0.1:8000/)
until_it '[ "$(queued)" = 3 ]'
stop

# Upgraded: what the operator has written stays, and so does the work.
echo '# of this host' >> /etc/lcc/lcc.toml
dpkg -i --force-confold /debs/after.deb
tail -n 1 /etc/lcc/lcc.toml | grep -qx '# of this host'
[ "$(stat -c '%a %U:%G' /etc/lcc/lcc.toml)" = "640 root:lcc" ]
start
[ "$(queued)" = 3 ]
/usr/bin/python3 -m http.server --bind 127.0.0.1 --directory /srv/site 8000 >/dev/null 2>&1 &
site=$!
until_it '(: < /dev/tcp/127.0.0.1/8000) 2>/dev/null'
admin retry --provider 1
until_it '[ "$(admin urls --json | wc -l)" = 3 ]'
stop
kill $site

# Removed: programs go, configuration and data stay.
dpkg -r lcc
for path in /usr/lib/lcc /usr/bin/lcc-admin /lib/systemd/system/lcc.service; do [ ! -e $path ]; done
[ -s /etc/lcc/lcc.toml ]
[ -s /var/lib/lcc/lcc.db ]

# Purged: nothing is left but its user.
dpkg -P lcc
[ ! -e /etc/lcc ]
[ ! -e /var/lib/lcc ]
rm -rf /srv/site
all_files > files.after
if diff files.before files.after | grep '^>' | grep -Ev '/etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$|/etc/\.pwd\.lock$'; then
    exit 1
fi
echo "all is well"
