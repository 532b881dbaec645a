package table

// prefetch fetches the first lines of a value into the cache; the processor sees by itself that the others follow.
//
//go:noescape
func prefetch(value *byte)
