# shellcheck shell=bash disable=SC2154
# Calls with a stock grpcurl at the sockets of a set, and what they must come to. To be sourced; works on $dir and
# $grpcurl, after deploy/set.sh.

fail() { echo "FAIL: $*"; exit 1; }

# call SERVICE METHOD [JSON]
call() {
	local socket=$dir/run/$1.sock
	"$grpcurl" -plaintext -max-time "$(patience SERVICE)" -connect-timeout "$(patience SERVICE)" -unix ${3:+-d "$3"} "$socket" "$2" 2>&1
}
# answers TEXT SERVICE METHOD [JSON]: the call succeeds and its answer has the text
answers() {
	local text=$1 out
	shift
	out=$(call "$@") || fail "$*: $out"
	grep -qF -- "$text" <<<"$out" || fail "$*: no '$text' in: $out"
}
# refuses CODE TEXT SERVICE METHOD [JSON]: the call fails with that code and words that have the text
refuses() {
	local code=$1 text=$2 out
	shift 2
	if out=$(call "$@"); then fail "$* should fail: $out"; fi
	grep -qF -- "Code: $code" <<<"$out" || fail "$*: not $code: $out"
	grep -qF -- "$text" <<<"$out" || fail "$*: no '$text' in: $out"
}
# streams TEXT SERVICE METHOD [JSON]: the first message has the text, and the caller may leave at any time
streams() {
	local text=$1 socket=$dir/run/$2.sock
	timeout "$(patience SERVICE)" grep -qF -m 1 -- "$text" < <(exec "$grpcurl" -plaintext -connect-timeout "$(patience SERVICE)" -unix ${4:+-d "$4"} "$socket" "$3" 2>&1) ||
		fail "$2 $3: no '$text' in the stream"
}
