package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"slices"
	"testing"

	"tailor/apps/key-value/internal/disk"
	"tailor/apps/key-value/internal/record"
)

// text is a disk whose files have this text.
type text struct {
	disk.Disk
	open func() io.Reader
}

func (d text) Open(string) (io.ReadCloser, error) { return io.NopCloser(d.open()), nil }

// blockOf is a block with one put.
func blockOf(number, synced uint64) []byte {
	block := bytes.Repeat([]byte{byte(number)}, blockHeader+record.PairSize)
	seal(block, 1, number, synced)
	return block
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(into []byte) (int, error) {
	clear(into)
	return len(into), nil
}

// behind are a block with put 1, something torn, many zeros, and a last piece.
func behind(torn []byte, count int64, last []byte) text {
	return text{open: func() io.Reader {
		start := append(blockOf(1, 0), torn...)
		return io.MultiReader(bytes.NewReader(start), io.LimitReader(zeros{}, count), bytes.NewReader(last))
	}}
}

func ignore(uint64, []byte) error { return nil }

// TestATornEndIsLookedThroughInPieces, however long it is: less memory is allotted than it has bytes.
func TestATornEndIsLookedThroughInPieces(t *testing.T) {
	const count = 128 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	replayed, err := Replay(behind([]byte("torn"), count, nil), 1, 0, true, ignore)
	runtime.ReadMemStats(&after)
	want := Replayed{Puts: 1, Last: 1, End: blockHeader + record.PairSize, Torn: int64(len("torn")) + count}
	if err != nil || replayed != want {
		t.Errorf("%+v, %v; wanted %+v", replayed, err, want)
	}
	if allotted := after.TotalAlloc - before.TotalAlloc; allotted > count/8 {
		t.Errorf("%d bytes were allotted", allotted)
	}
}

// TestALaterBlockProvesALoss, however far behind it stands, if it knows a put that is not there to be durable.
func TestALaterBlockProvesALoss(t *testing.T) {
	half := blockOf(2, 0)[:100]
	wrong := blockOf(2, 0)
	wrong[blockHeader+5]++
	for _, torn := range [][]byte{[]byte("x"), half, wrong} {
		for _, count := range []int64{0, 1, readAtOnce - 60, readAtOnce + 1, 3 * readAtOnce} {
			for synced, isLost := range map[uint64]bool{1: false, 2: true} {
				_, err := Replay(behind(torn, count, blockOf(9, synced)), 1, 0, true, ignore)
				var damage *DamageError
				if errors.As(err, &damage) != isLost || (err != nil) != isLost {
					t.Errorf("%d bytes torn, %d zeros, durable put %d: %v", len(torn), count, synced, err)
				}
			}
		}
	}
}

// TestALengthThatNoBlockHasIsNotBelieved: no memory is allotted for it.
func TestALengthThatNoBlockHasIsNotBelieved(t *testing.T) {
	long := blockOf(2, 0)
	binary.LittleEndian.PutUint32(long[8:], MostGroupBytes/record.PairSize*record.PairSize)
	if h, isValid := parse(long, 1); !isValid {
		t.Errorf("length %d is refused", h.length)
	}
	binary.LittleEndian.PutUint32(long[8:], (MostGroupBytes/record.PairSize+1)*record.PairSize)
	if h, isValid := parse(long, 1); isValid {
		t.Errorf("length %d is allowed", h.length)
	}
}

// TestAWindowFindsWhatBeginsInOneReadAndEndsInTheNext.
func TestAWindowFindsWhatBeginsInOneReadAndEndsInTheNext(t *testing.T) {
	for _, places := range [][]int64{
		{0, 4, 100}, {readAtOnce - 3}, {readAtOnce - 1, 2*readAtOnce - 2}, {readAtOnce, readAtOnce + 5},
		{3*readAtOnce - blockHeader},
	} {
		input := make([]byte, 3*readAtOnce)
		for _, place := range places {
			copy(input[place:], magic[:])
		}
		copy(input[len(input)-len(magic):], magic[:]) // nothing fits behind it
		w := window{input: bytes.NewReader(input)}
		var found []int64
		for {
			isThere, err := w.find(magic[:], blockHeader)
			if err != nil {
				t.Fatal(err)
			}
			if !isThere {
				break
			}
			found = append(found, w.passed)
			w.skip(1)
		}
		if !slices.Equal(found, places) || w.passed != int64(len(input)) {
			t.Errorf("found at %d, the end at %d; wanted %d", found, w.passed, places)
		}
	}
}
