# shellcheck shell=bash disable=SC2034
# Sourced by tools/setup, tools/build, tools/test and tools/quickstart.
# Afterwards ROOT is the repository.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# When the outermost command began, in seconds; inner ones count on from it.
export TP_START="${TP_START:-$EPOCHSECONDS}"
LOGS="$ROOT/build/logs"
STATE="$ROOT/build/setup"

# A bare machine has no locale but C; tools that print UTF-8 still must work.
export LC_ALL="${LC_ALL:-C.UTF-8}"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1
export CMAKE_COLOR_DIAGNOSTICS=OFF
# Elapsed seconds in front of every ninja step.
export NINJA_STATUS="[%f/%t %es] "

say() { printf '[%4ds] %s\n' $((EPOCHSECONDS - TP_START)) "$*"; }

fail() {
  local code="$1"
  shift
  printf 'error: %s\n' "$*" >&2
  exit "$code"
}

# step NAME COMMAND...: runs a command with its output in build/logs/NAME.log.
# Says that it is alive every 10 seconds, with the log's last line; shows the
# log's end if it fails and returns its exit code.
step() {
  local name="$1" log pid code=0 waited=0 began=$SECONDS
  shift
  mkdir -p "$LOGS"
  log="$LOGS/$name.log"
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    waited=$((waited + 1))
    if ((waited % 50 == 0)); then
      say "  $name: $(tail -n 3 "$log" | tr '\r' '\n' | grep -v '^ *$' | tail -n 1 | cut -c1-90)"
    fi
  done
  wait "$pid" || code=$?
  if ((code != 0)); then
    say "$name failed with exit code $code after $((SECONDS - began)) s; the end of $log:"
    tail -n 30 "$log" | sed 's/^/    /'
  fi
  return "$code"
}

# Parallel compilers: one per core, but no more than fit into memory at 1.5 GB
# each, which is what a file that includes LibTorch needs.
build_jobs() {
  local cores memory
  cores="$(nproc)"
  memory="$(awk '/MemAvailable/ {print int($2 / 1500000)}' /proc/meminfo)"
  ((memory < 1)) && memory=1
  echo $((cores < memory ? cores : memory))
}
