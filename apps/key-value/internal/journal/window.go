package journal

import (
	"bytes"
	"io"
	"slices"
)

// window is a piece of an input that moves towards its end, however long the input is.
type window struct {
	input  io.Reader
	room   []byte
	bytes  []byte // the window, at the end of room
	passed int64  // bytes before it
}

// skip moves the beginning of the window past so many bytes that are in it.
func (w *window) skip(count int) {
	w.bytes = w.bytes[count:]
	w.passed += int64(count)
}

// have reads until the window has so many bytes; it is false where the input ends before.
func (w *window) have(size int) (bool, error) {
	kept := len(w.bytes)
	if kept >= size {
		return true, nil
	}
	w.room = append(w.room[:0], w.bytes...)
	wanted := max(size, readAtOnce)
	w.room = slices.Grow(w.room, wanted-kept)[:wanted]
	count, err := io.ReadFull(w.input, w.room[kept:])
	w.room = w.room[:kept+count]
	w.bytes = w.room
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return len(w.bytes) >= size, err
}

// find moves the window to the next place where text stands with so many bytes from its beginning on; it is false, and
// the window at the end of the input, where there is none.
func (w *window) find(text []byte, size int) (bool, error) {
	for {
		isThere, err := w.have(size)
		if err != nil {
			return false, err
		}
		at := bytes.Index(w.bytes, text)
		switch {
		case !isThere:
			w.skip(len(w.bytes))
			return false, nil
		case at == 0:
			return true, nil
		case at > 0:
			w.skip(at)
		default:
			w.skip(len(w.bytes) - len(text) + 1) // it may begin at the end of what was read
		}
	}
}
