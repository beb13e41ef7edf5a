# hosts.sh - two hosts made of network namespaces: ${ns}a is 10.77.0.1, ${ns}b is 10.77.0.2. Sourced, with $tmp there.
ns=run$$

# hosts_open veth|tun - with a cable between them, or with devices that scripts/relay.c joins.
hosts_open() {
    ip netns add ${ns}a 2>/dev/null && ip netns add ${ns}b || return 1
    if [ "$1" = veth ]; then ip link add v${ns}a netns ${ns}a type veth peer name v${ns}b netns ${ns}b || return 1; fi
    for s in a b; do
        if [ "$1" = tun ]; then ip -n $ns$s tuntap add v$ns$s mode tun || return 1; fi
        ip -n $ns$s addr add 10.77.0.$([ $s = a ] && echo 1 || echo 2)/24 dev v$ns$s
        ip -n $ns$s link set lo up
        ip -n $ns$s link set v$ns$s up
    done
    cat >"$tmp/agent" <<P
#!/bin/sh
# agent HOST COMMAND... - what ssh would do: runs it on the host
case \$1 in *.1) s=a ;; *) s=b ;; esac
shift
exec ip netns exec $ns\$s unshare -u sh -c "hostname $ns\$s; \$*"
P
    chmod +x "$tmp/agent"
}

hosts_close() { ip netns del ${ns}a 2>/dev/null; ip netns del ${ns}b 2>/dev/null; }

# hosts_mpirun ARGS... - a rank on each of them, TCP between them; run on the first one. Each host would bind its rank to
# the first core, which they share.
hosts_mpirun() {
    ip netns exec ${ns}a unshare -u sh -c "hostname ${ns}a; mpirun -q --mca plm_rsh_agent $tmp/agent \
        --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24 \
        --mca btl tcp,self --bind-to none --host 10.77.0.1:1,10.77.0.2:1 -n 2 $*"
}
