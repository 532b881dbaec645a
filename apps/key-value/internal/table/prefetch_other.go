//go:build !amd64

package table

// prefetch does nothing: a get of a record that no cache holds is slower, and right.
func prefetch(*byte) {}
