# shellcheck shell=bash disable=SC2154
# A whole set of services in one directory, with no systemd and nothing installed: for the demo and for tests. To be
# sourced by bash; works on $dir (private, short: sockets are below it), $build (a build directory) and $repo.

SET_SERVICES=(netd runtime-libvirt runtime-ch runtime-fake intelligence converger)
SET_BRIDGE=br-demo

# set_world COMMAND...: runs it below a PID 1 that reaps, with processes, network and mounts of its own, which all go
# when it ends. Call set_make_world inside.
set_world() {
	unshare --kill-child=KILL --fork --pid --mount --net --ipc --uts --mount-proc tini -- "$@"
}

# patience SERVICE|GUEST: how many seconds are waited for what must come, as tests do
patience() { "$repo/tests/harness/timeout" "$1"; }

set_make_world() { # terminals of our own, and the locks of who opened them; no cgroups of the machine's
	mount -t tmpfs tmpfs /run/lock
	mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts /dev/pts
	mount --bind /dev/pts/ptmx /dev/ptmx
	mount -t tmpfs tmpfs /sys/fs/cgroup 2>/dev/null || true
	ip link set lo up
	ip link add "$SET_BRIDGE" type bridge
	ip addr add 10.0.0.1/24 dev "$SET_BRIDGE"
	ip link set "$SET_BRIDGE" up
}

set_configure() {
	local name
	mkdir -p "$dir"/{etc,run,data,log,services}
	for name in "${SET_SERVICES[@]}"; do
		printf '[service]\nsocket = %s\ndata_dir = %s\n' "$dir/run/$name.sock" "$dir/data" >"$dir/etc/$name.conf"
	done
	cat >>"$dir/etc/converger.conf" <<-CONF
		[node]
		id = demo
		run_dir = $dir/run
		netd_socket = $dir/run/netd.sock
		intelligence_socket = $dir/run/intelligence.sock
		instances_dir = $dir/data/instances
	CONF
	printf '[netd]\nallowed_bridges = %s\n' "$SET_BRIDGE" >>"$dir/etc/netd.conf"
	printf '[libvirt]\nuri = qemu:///embed?root=%s/virt\n[instances]\ndir = %s/data/instances\n' "$dir" "$dir" \
		>>"$dir/etc/runtime-libvirt.conf"
}

# starts one service and waits for its word that it is ready; its pid and, at its end, its status are in services/
set_start() {
	local name=$1 log=$dir/log/$1.log pid
	: >"$log"
	rm -f "$dir/services/$name".{started,pid,status}
	mkfifo "$dir/services/$name.started"
	(
		exec 9>"$dir/services/$name.lock" # held for as long as it lives
		flock 9
		"$build/bin/bc-$name" --config "$dir/etc/$name.conf" </dev/null >>"$log" 2>&1 9>&- &
		echo $! >"$dir/services/$name.started"
		status=0
		wait $! || status=$?
		echo "$status" >"$dir/services/$name.status"
	) </dev/null >/dev/null 2>&1 &
	read -r pid <"$dir/services/$name.started"
	echo "$pid" >"$dir/services/$name.pid"
	timeout "$(patience SERVICE)" grep -q -m 1 'ready on' < <(exec tail -n +1 -f --pid="$pid" "$log") || { cat "$log"; return 1; }
}
set_start_all() {
	local name
	for name in "${SET_SERVICES[@]}"; do set_start "$name" || return; done
}
set_pid() { cat "$dir/services/$1.pid"; }

# set_end NAME [SIGNAL]: ends one and waits; its exit status is the function's
set_end() {
	kill "-${2:-TERM}" "$(set_pid "$1")"
	timeout "$(patience SERVICE)" flock "$dir/services/$1.lock" true || { echo "bc-$1 does not end"; return 1; }
	return "$(cat "$dir/services/$1.status")"
}
# whatever does not end well by itself is a fault
set_end_all() {
	local name
	for name in "${SET_SERVICES[@]}"; do
		set_end "$name" || { echo "bc-$name ended with status $?"; tail -n 5 "$dir/log/$name.log"; return 1; }
	done
}
