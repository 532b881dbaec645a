// Package journal is the write-ahead log: every put, in the order in which the table took it, in blocks with checksums.
//
// Puts that arrive while a block is on its way to the device make up the next one (group commit; DeWitt et al.,
// Implementation techniques for main memory database systems, SIGMOD 1984), so that the more puts there are at once,
// the more of them share a sync.
package journal

import (
	"encoding/binary"
	"hash/crc32"

	"tailor/apps/key-value/internal/record"
)

// A block has a header and puts. All numbers are little-endian:
//
//	magic       4  "KVLB"
//	checksum    4  CRC-32C of all that follows it in the block
//	length      4  of the puts in bytes
//	            4  0
//	generation  8  of the file
//	first       8  number of the first put; puts are numbered from 1 on, over all files
//	synced      8  number of the last put that was durable when the block was written
//	puts           key (8) and value (1,024) of each
const (
	blockHeader = 40
	checksumAt  = 4
	checkedFrom = 8
)

// MostGroupBytes bounds the puts of a block, so that a damaged length is not believed.
const MostGroupBytes = 64 << 20

var magic = [4]byte{'K', 'V', 'L', 'B'}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type header struct {
	checksum   uint32
	length     int
	generation uint64
	first      uint64
	synced     uint64
}

// seal writes the header of a block whose puts are in place behind it.
func seal(block []byte, generation, first, synced uint64) {
	copy(block, magic[:])
	binary.LittleEndian.PutUint32(block[8:], uint32(len(block)-blockHeader))
	binary.LittleEndian.PutUint32(block[12:], 0)
	binary.LittleEndian.PutUint64(block[16:], generation)
	binary.LittleEndian.PutUint64(block[24:], first)
	binary.LittleEndian.PutUint64(block[32:], synced)
	binary.LittleEndian.PutUint32(block[checksumAt:], crc32.Checksum(block[checkedFrom:], castagnoli))
}

// parse reads a header; it is not valid when it cannot be one of the generation.
func parse(text []byte, generation uint64) (h header, isValid bool) {
	h = header{
		checksum:   binary.LittleEndian.Uint32(text[checksumAt:]),
		length:     int(binary.LittleEndian.Uint32(text[8:])),
		generation: binary.LittleEndian.Uint64(text[16:]),
		first:      binary.LittleEndian.Uint64(text[24:]),
		synced:     binary.LittleEndian.Uint64(text[32:]),
	}
	isValid = [4]byte(text) == magic && h.generation == generation && h.length > 0 && h.length%record.PairSize == 0 &&
		h.length <= MostGroupBytes && h.first > 0
	return h, isValid
}

// isWhole says whether a block, header and puts, is what was written.
func (h header) isWhole(block []byte) bool {
	return crc32.Checksum(block[checkedFrom:], castagnoli) == h.checksum
}

// next is the number of the put that follows the block.
func (h header) next() uint64 { return h.first + uint64(h.length/record.PairSize) }
