//go:build !amd64

package table

// prefetch does nothing: the copy waits for a record that no cache holds.
func prefetch(*byte) {}
