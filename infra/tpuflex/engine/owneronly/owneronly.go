//go:build linux

// Package owneronly listens for the user who runs this process, and for nobody else.
//
// tpuflex builds it into Pulumi's engine in place of net.Listen: the engine serves gRPC on
// loopback, which every user of a machine reaches, and asks for no credential
// (docs/adr/0019-engine-for-its-owner.md). The rules are those of infra/pulumi_plugin/peer.py: an
// answer of the kernel counts only if it is about a connection that is established and whose
// socket belongs to a process, and what it does not say is a stranger. See sock_diag(7).
package owneronly

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const (
	sockDiagByFamily = 20 // linux/sock_diag.h
	established      = 1  // TCP_ESTABLISHED, net/tcp_states.h
	headerSize       = 16 // struct nlmsghdr
	requestSize      = 56 // struct inet_diag_req_v2
	// idiag_state, idiag_uid and idiag_inode in struct inet_diag_msg, after the header.
	stateAt, uidAt, inodeAt = headerSize + 1, headerSize + 64, headerSize + 68
	answerSize              = headerSize + 72
	// Columns of the tables (proc_pid_net(5)).
	local, remote, state, owner, inode = 1, 2, 3, 7, 9
)

var errUnknown = errors.New("the kernel does not say whose the socket is")

// Listen is net.Listen for TCP, but a connection of another user is closed at once.
func Listen(network, address string) (net.Listener, error) {
	listener, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	return ownersListener{listener}, nil
}

type ownersListener struct{ net.Listener }

// Accept returns the owner's next connection.
func (l ownersListener) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if isOwn(connection) {
			return connection, nil
		}
		_ = connection.Close() // a stranger's: whether closing fails is its own affair
	}
}

// isOwn looks at our end, too: were it closed by now, the caller may have hung up and somebody
// else's connection have got its port.
func isOwn(connection net.Conn) bool {
	tcp, ok := connection.(*net.TCPConn)
	if !ok {
		return false
	}
	theirs, err := end(tcp.RemoteAddr())
	if err != nil {
		return false
	}
	ours, err := end(tcp.LocalAddr())
	if err != nil {
		return false
	}
	uid, err := ask(theirs, ours)
	if err != nil { // no sock_diag here, or no such socket: the tables have the last word
		uid, err = search(theirs, ours)
	}
	return err == nil && uid == uint32(os.Geteuid()) && !standsForMany(uid) && isEstablished(tcp)
}

// end is a TCP address, an IPv4 address in IPv6 clothes as IPv4.
func end(address net.Addr) (netip.AddrPort, error) {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, errUnknown
	}
	found := tcp.AddrPort()
	return netip.AddrPortFrom(found.Addr().Unmap().WithZone(""), found.Port()), nil
}

// ask has the kernel find one socket by its two ends.
func ask(theirs, ours netip.AddrPort) (uint32, error) {
	kind := syscall.SOCK_DGRAM | syscall.SOCK_CLOEXEC
	kernel, err := syscall.Socket(syscall.AF_NETLINK, kind, syscall.NETLINK_INET_DIAG)
	if err != nil {
		return 0, err
	}
	defer syscall.Close(kernel)
	patience := syscall.Timeval{Sec: 1}
	if err := syscall.SetsockoptTimeval(kernel, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &patience); err != nil {
		return 0, err
	}
	to := &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}
	if err := syscall.Sendto(kernel, request(theirs, ours), 0, to); err != nil {
		return 0, err
	}
	answer := make([]byte, 4096)
	size, from, err := syscall.Recvfrom(kernel, answer, 0)
	if err != nil {
		return 0, err
	}
	sender, ok := from.(*syscall.SockaddrNetlink)
	if !ok || sender.Pid != 0 || size < answerSize {
		return 0, errUnknown
	}
	order := binary.NativeEndian
	if order.Uint16(answer[4:]) != sockDiagByFamily || answer[stateAt] != established {
		return 0, errUnknown
	}
	if order.Uint32(answer[inodeAt:]) == 0 {
		return 0, errUnknown
	}
	return order.Uint32(answer[uidAt:]), nil
}

// request is a struct nlmsghdr and a struct inet_diag_req_v2.
func request(theirs, ours netip.AddrPort) []byte {
	order := binary.NativeEndian
	message := make([]byte, headerSize+requestSize)
	order.PutUint32(message, uint32(len(message)))
	order.PutUint16(message[4:], sockDiagByFamily)
	order.PutUint16(message[6:], syscall.NLM_F_REQUEST)
	order.PutUint32(message[8:], 1) // sequence number
	body := message[headerSize:]
	body[0], body[1] = syscall.AF_INET, syscall.IPPROTO_TCP
	if theirs.Addr().Is6() {
		body[0] = syscall.AF_INET6
	}
	order.PutUint32(body[4:], 1<<established)
	binary.BigEndian.PutUint16(body[8:], theirs.Port())
	binary.BigEndian.PutUint16(body[10:], ours.Port())
	copy(body[12:28], theirs.Addr().AsSlice())
	copy(body[28:44], ours.Addr().AsSlice())
	order.PutUint32(body[48:], ^uint32(0)) // any cookie; at 44, any interface
	order.PutUint32(body[52:], ^uint32(0))
	return message
}

// search finds the socket in /proc/net/tcp and /proc/net/tcp6.
func search(theirs, ours netip.AddrPort) (uint32, error) {
	lines := ""
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err == nil { // there is no tcp6 in a kernel without IPv6
			lines += string(text)
		}
	}
	return ownerIn(lines, theirs, ours)
}

// ownerIn is the one user whose socket lines of these tables name.
func ownerIn(lines string, theirs, ours netip.AddrPort) (uint32, error) {
	found := map[uint32]bool{}
	for line := range strings.Lines(lines) {
		columns := strings.Fields(line)
		if len(columns) <= inode || columns[inode] == "0" {
			continue
		}
		if !isAt(columns[local], theirs) || !isAt(columns[remote], ours) {
			continue
		}
		status, err := strconv.ParseUint(columns[state], 16, 8)
		if err != nil || status != established {
			continue
		}
		uid, err := strconv.ParseUint(columns[owner], 10, 32)
		if err != nil {
			return 0, err
		}
		found[uint32(uid)] = true
	}
	for uid := range found {
		if len(found) == 1 {
			return uid, nil
		}
	}
	return 0, errUnknown
}

// isAt says whether a column such as 0100007F:2116 names this end: words in this machine's byte
// order, one for IPv4 and four for IPv6.
func isAt(column string, at netip.AddrPort) bool {
	address, port, _ := strings.Cut(column, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	if err != nil || uint16(number) != at.Port() {
		return false
	}
	words, err := hex.DecodeString(address)
	if err != nil || len(words)%4 != 0 {
		return false
	}
	for word := 0; word < len(words); word += 4 {
		binary.NativeEndian.PutUint32(words[word:], binary.BigEndian.Uint32(words[word:]))
	}
	found, ok := netip.AddrFromSlice(words)
	return ok && found.Unmap() == at.Addr()
}

func isEstablished(connection *net.TCPConn) bool {
	raw, err := connection.SyscallConn()
	if err != nil {
		return false
	}
	info, failed := 0, error(nil)
	err = raw.Control(func(descriptor uintptr) {
		info, failed = syscall.GetsockoptInt(int(descriptor), syscall.IPPROTO_TCP, syscall.TCP_INFO)
	})
	if err != nil || failed != nil {
		return false
	}
	first := make([]byte, 4) // tcpi_state is the first byte of struct tcp_info
	binary.NativeEndian.PutUint32(first, uint32(info))
	return first[0] == established
}

// standsForMany says whether the kernel says this uid of every user whom this user namespace lacks
// (user_namespaces(7), "Unmapped user and group IDs").
func standsForMany(uid uint32) bool {
	overflow, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil || strings.TrimSpace(string(overflow)) != strconv.FormatUint(uint64(uid), 10) {
		return false
	}
	mapped, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(mapped)), " ") != "0 0 4294967295"
}
