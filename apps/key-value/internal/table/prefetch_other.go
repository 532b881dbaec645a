//go:build !amd64

package table

import "unsafe"

// prefetchLine does nothing.
func prefetchLine(unsafe.Pointer) {}

// prefetch does nothing: the copy waits for a record that no cache holds.
func prefetch(*byte) {}
