package table

// prefetch asks for all lines of a value (record.Size bytes), and does not wait for them.
//
//go:noescape
func prefetch(value *byte)
