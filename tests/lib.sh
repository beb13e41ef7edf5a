# lib.sh - what the test scripts share: they begin with `. tests/lib.sh` and are run by bash from the top of the tree.
# RUN is the program under test. Each check prints "ok NAME" or "not ok NAME: SCRIPT:LINE: why", LINE being where the
# script calls the check, not where a helper notices the failure.
RUN=${RUN:-./run}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

# The line of the script itself, however many helpers lie between.
at() { echo "$0:${BASH_LINENO[${#BASH_LINENO[@]} - 2]}"; }
ok() { echo "ok $1"; }
not_ok() { echo "not ok $1: $(at): $2"; }
skip() { echo "skip $1: $2"; }

# check NAME COMMAND... - COMMAND succeeds; the end of what it prints is shown when it does not.
check() {
    local name=$1
    shift
    if "$@" >"$tmp/check" 2>&1; then ok "$name"; else not_ok "$name" "$(tail -n 3 "$tmp/check" | head -c 500)"; fi
}

# empty NAME LIST - nothing is in a list of mistakes.
empty() { if [ -z "$2" ]; then ok "$1"; else not_ok "$1" "$(echo $2)"; fi; }

# refused NAME CODE WORDS ARGS... - the program ends with CODE and one line "run: ... WORDS ..." (a basic regular
# expression) on standard error, and leaves standard output empty.
refused() {
    local name=$1 code=$2 words=$3 status
    shift 3
    timeout 60 "$RUN" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    status=$?
    if [ $status -ne "$code" ]; then not_ok "$name" "exit $status, expected $code: $(head -c 300 "$tmp/err")"
    elif [ -s "$tmp/out" ]; then not_ok "$name" "standard output is not empty"
    elif [ "$(grep -c . "$tmp/err")" -ne 1 ]; then not_ok "$name" "more than one line: $(head -c 300 "$tmp/err")"
    elif ! grep -q -e "^run: .*$words" "$tmp/err"; then not_ok "$name" "expected '$words' in: $(cat "$tmp/err")"
    else ok "$name"; fi
}
