package socket

import (
	"net"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

// Address reads host:port, or unix:/path of a socket in the file system.
func Address(address string) (family int, at unix.Sockaddr, err error) {
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		return unix.AF_UNIX, &unix.SockaddrUnix{Name: path}, nil
	}
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return 0, nil, err
	}
	if resolved.IP == nil { // all interfaces
		return unix.AF_INET6, &unix.SockaddrInet6{Port: resolved.Port, Addr: netip.IPv6Unspecified().As16()}, nil
	}
	host := resolved.AddrPort().Addr().Unmap()
	if host.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: resolved.Port, Addr: host.As4()}, nil
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: resolved.Port, Addr: host.As16()}, nil
}

// Dial connects from a local address, any where it is nil, and waits until the connection is there. The socket does
// not block afterwards.
func Dial(family int, from, to unix.Sockaddr) (descriptor int, err error) {
	descriptor, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if family != unix.AF_UNIX {
		err = unix.SetsockoptInt(descriptor, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err == nil && from != nil {
		// The port is chosen when the other end is known, so that ports are reused towards other servers.
		if err = unix.SetsockoptInt(descriptor, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err == nil {
			err = unix.Bind(descriptor, from)
		}
	}
	if err == nil {
		err = unix.Connect(descriptor, to)
	}
	if err == nil {
		err = unix.SetNonblock(descriptor, true)
	}
	if err != nil {
		_ = unix.Close(descriptor)
		return -1, err
	}
	return descriptor, nil
}
