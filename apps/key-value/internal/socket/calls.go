// Package socket has the system calls of threads that serve many connections with epoll: the server's and the load
// generator's.
package socket

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The sockets do not block, so that a call to one returns at once, and Go's scheduler need not be told about it, as the
// wrappers of package unix do. BenchmarkRead compares the two.

// Read reads into the buffers, the second of which may be empty; n is 0 at the end of the stream.
func Read(descriptor int, first, second []byte) (n int, err error) {
	var number uintptr
	var errno unix.Errno
	if len(second) == 0 {
		number, _, errno = unix.RawSyscall(
			unix.SYS_READ, uintptr(descriptor), uintptr(unsafe.Pointer(unsafe.SliceData(first))), uintptr(len(first)))
	} else {
		vectors := [2]unix.Iovec{{Base: &first[0]}, {Base: &second[0]}}
		vectors[0].SetLen(len(first))
		vectors[1].SetLen(len(second))
		number, _, errno = unix.RawSyscall(unix.SYS_READV, uintptr(descriptor), uintptr(unsafe.Pointer(&vectors)), 2)
	}
	if errno != 0 {
		return 0, errno
	}
	return int(number), nil
}

// Write writes what the peer takes now.
func Write(descriptor int, data []byte) (n int, err error) {
	// MSG_NOSIGNAL is not needed: Go's runtime ignores SIGPIPE of other descriptors than 1 and 2.
	number, _, errno := unix.RawSyscall(
		unix.SYS_WRITE, uintptr(descriptor), uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)))
	if errno != 0 {
		return 0, errno
	}
	return int(number), nil
}

// Look fills events with what has happened, and does not wait.
func Look(epoll int, events []unix.EpollEvent) (int, error) {
	number, _, errno := unix.RawSyscall6(
		unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	switch errno {
	case 0:
		return int(number), nil
	case unix.EINTR:
		return 0, nil
	default:
		return 0, errno
	}
}

// Wait fills events. It looks first: only of a call that waits must the scheduler be told.
func Wait(epoll int, events []unix.EpollEvent) (int, error) {
	if n, err := Look(epoll, events); n > 0 || err != nil {
		return n, err
	}
	n, err := unix.EpollWait(epoll, events, -1)
	if err == unix.EINTR {
		return 0, nil
	}
	return n, err
}
