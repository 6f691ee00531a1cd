#!/bin/sh
# Installs YAK into /opt/yak, and /usr/local/bin/yak-start, which starts the cluster. The options are variables in
# capitals, as the specification of dev container features says. DESTDIR is the root to install into.
set -eu

root="${DESTDIR:-}"
python="${PYTHON:-python3}"
if ! "$python" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "error[no-python]: Python 3.11 or newer, with venv, was not found" >&2
  echo "  try:  add the feature ghcr.io/devcontainers/features/python, or an image that has it" >&2
  exit 1
fi
for value in "${BROKERS:=1}" "${ASKAFKA:=}"; do
  case "$value" in
    *[!0-9.]*) echo "error[bad-option]: brokers and asKafka are numbers, not '$value'" >&2; exit 1 ;;
  esac
done

"$python" -m venv "$root/opt/yak"
"$root/opt/yak/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check "${PACKAGE:-yak-broker}"
mkdir -p "$root/usr/local/bin"
ln -sf /opt/yak/bin/yak "$root/usr/local/bin/yak"
cat > "$root/usr/local/bin/yak-start" <<EOF
#!/bin/sh
# Starts the cluster of this container if it does not run; its data are in the user's home.
exec yak up -d --brokers $BROKERS ${ASKAFKA:+--as-kafka $ASKAFKA} --port 9092 --http-port 8080 --data-dir "\$HOME/.yak-data"
EOF
chmod 755 "$root/usr/local/bin/yak-start"
