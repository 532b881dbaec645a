package socket

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"
)

func pair(t testing.TB) (near, far int) {
	t.Helper()
	both, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Close(both[0])
		_ = unix.Close(both[1])
	})
	return both[0], both[1]
}

// TestAReadFillsOneBufferAfterTheOther with what was written, and tells the end and that there is nothing.
func TestAReadFillsOneBufferAfterTheOther(t *testing.T) {
	near, far := pair(t)
	first, second := make([]byte, 3), make([]byte, 9)
	if _, err := Read(near, first, nil); err != unix.EAGAIN {
		t.Errorf("nothing was written: %v", err)
	}
	for range 2 {
		if n, err := Write(far, []byte("abcdefgh")); n != 8 || err != nil {
			t.Fatal(n, err)
		}
	}
	n, err := Read(near, first, second)
	if err != nil || n != 12 || string(first)+string(second) != "abcdefghabcd" {
		t.Errorf("%d bytes, %q %q, %v", n, first, second, err)
	}
	if n, err := Read(near, second, nil); err != nil || !bytes.Equal(second[:n], []byte("efgh")) {
		t.Errorf("%q, %v", second[:n], err)
	}
	if err := unix.Shutdown(far, unix.SHUT_WR); err != nil {
		t.Fatal(err)
	}
	if n, err := Read(near, first, nil); n != 0 || err != nil {
		t.Errorf("at the end: %d, %v", n, err)
	}
}

// BenchmarkRead reads a record that was written, by a call that the scheduler is told of and by one that it is not.
func BenchmarkRead(b *testing.B) {
	near, far := pair(b)
	into := make([]byte, 1024)
	for name, read := range map[string]func() (int, error){
		"raw":     func() (int, error) { return Read(near, into, nil) },
		"wrapped": func() (int, error) { return unix.Read(near, into) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Write(far, into); err != nil {
					b.Fatal(err)
				}
				if n, err := read(); n != len(into) || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}
