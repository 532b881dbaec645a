// Package record says what the service stores: values of one size under integer keys.
package record

// Size is the length of every value in bytes.
const Size = 1024

// KeySize is the length of a key in bytes, little-endian wherever one is written.
const KeySize = 8

// PairSize is the length of a key with its value.
const PairSize = KeySize + Size
