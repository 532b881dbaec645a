package table

import "unsafe"

// prefetchLine asks for the line of the cache that an address lies in, and does not wait for it.
//
//go:noescape
func prefetchLine(address unsafe.Pointer)

// prefetch asks for all lines of a value (record.Size bytes), and does not wait for them.
//
//go:noescape
func prefetch(value *byte)
