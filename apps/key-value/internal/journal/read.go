package journal

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"tailor/apps/key-value/internal/disk"
	"tailor/apps/key-value/internal/record"
)

// readAtOnce is how much of a file is read at once.
const readAtOnce = 256 << 10

// FileName is the name of the file of a generation.
func FileName(generation uint64) string { return fmt.Sprintf("log-%d", generation) }

// Generations are those of the log files among names, in their order.
func Generations(names []string) []uint64 { return disk.Generations(names, "log-") }

// DamageError says that a log lost puts that were durable. Starting without them would hide it: restore a copy of the
// directory, or remove the file named here and those after it and lose what they hold.
type DamageError struct {
	File   string
	At     int64
	Reason string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d: %s", e.File, e.At, e.Reason)
}

// Replayed is what was read of a file.
type Replayed struct {
	Puts int64
	Last uint64 // number of the last put
	End  int64  // of the last block
	Torn int64  // bytes behind it: of a block that was being written when the process or the machine ended
}

// Replay calls visit with every put of a file, in their order. last is the number of the put before the first, and
// isNewest says that no later file exists: only such a file may have a torn end.
func Replay(
	on disk.Disk, generation, last uint64, isNewest bool, visit func(key uint64, value []byte) error,
) (Replayed, error) {
	file, err := on.Open(FileName(generation))
	if err != nil {
		return Replayed{}, err
	}
	defer file.Close()
	r := &reader{
		input:      bufio.NewReaderSize(file, readAtOnce),
		generation: generation,
		replayed:   Replayed{Last: last},
	}
	for {
		block, reason, err := r.next()
		if err != nil {
			return r.replayed, err
		}
		if reason != "" {
			return r.torn(block, reason, isNewest)
		}
		if block == nil {
			return r.replayed, nil
		}
		for at := blockHeader; at < len(block); at += record.PairSize {
			value := block[at+record.KeySize : at+record.PairSize]
			if err := visit(binary.LittleEndian.Uint64(block[at:]), value); err != nil {
				return r.replayed, err
			}
		}
	}
}

type reader struct {
	input      *bufio.Reader
	generation uint64
	block      []byte
	replayed   Replayed
}

// next reads a block; without one, the file is at its end. With a reason, what was read is no block.
func (r *reader) next() (block []byte, reason string, err error) {
	r.block = slices.Grow(r.block[:0], blockHeader)[:blockHeader]
	count, err := io.ReadFull(r.input, r.block)
	if err == io.EOF {
		return nil, "", nil
	}
	if err == io.ErrUnexpectedEOF {
		return r.block[:count], "the file ends in a header", nil
	}
	if err != nil {
		return nil, "", err
	}
	h, isValid := parse(r.block, r.generation)
	if !isValid {
		return r.block, "no header", nil
	}
	r.block = slices.Grow(r.block, h.length)[:blockHeader+h.length]
	count, err = io.ReadFull(r.input, r.block[blockHeader:])
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		reason := fmt.Sprintf("the file ends after %d of %d bytes of a block", count, h.length)
		return r.block[:blockHeader+count], reason, nil
	}
	if err != nil {
		return nil, "", err
	}
	if !h.isWhole(r.block) {
		return r.block, "the checksum is wrong", nil
	}
	if h.first != r.replayed.Last+1 { // a whole block: what stood between them is lost
		reason := fmt.Sprintf("put %d follows %d", h.first, r.replayed.Last)
		return nil, "", &DamageError{FileName(r.generation), r.replayed.End, reason}
	}
	r.replayed.Puts += int64(h.length / record.PairSize)
	r.replayed.Last = h.next() - 1
	r.replayed.End += int64(len(r.block))
	return r.block, "", nil
}

// torn decides what bytes that are no block mean. A later block that knows a put of them, or before, to be durable
// proves that the device lost it.
func (r *reader) torn(read []byte, reason string, isNewest bool) (Replayed, error) {
	damaged := &DamageError{File: FileName(r.generation), At: r.replayed.End, Reason: reason}
	if !isNewest {
		return r.replayed, damaged
	}
	rest := window{input: r.input, bytes: read}
	for ; ; rest.skip(1) {
		isThere, err := rest.find(magic[:], blockHeader)
		if err != nil {
			return r.replayed, err
		}
		if !isThere {
			r.replayed.Torn = rest.passed
			return r.replayed, nil
		}
		h, isValid := parse(rest.bytes, r.generation)
		if !isValid || h.synced <= r.replayed.Last {
			continue
		}
		if isThere, err = rest.have(blockHeader + h.length); err != nil {
			return r.replayed, err
		}
		if isThere && h.isWhole(rest.bytes[:blockHeader+h.length]) {
			return r.replayed, damaged
		}
	}
}
