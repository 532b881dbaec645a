package socket

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// AllowDescriptors raises the limit of open files to so many. Beyond the hard limit only root may.
func AllowDescriptors(needed int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Cur >= uint64(needed) {
		return nil
	}
	wanted := unix.Rlimit{Cur: uint64(needed), Max: max(limit.Max, uint64(needed))}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &wanted); err != nil {
		return fmt.Errorf("%d open files are needed, and the limit is %d (ulimit -n): %w", needed, limit.Max, err)
	}
	return nil
}
