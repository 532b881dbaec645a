package wire

import (
	"bytes"
	"encoding/binary"
	"testing"
	"testing/quick"

	"tailor/apps/key-value/internal/record"
)

func TestRequestsAreDecodedAsTheyWereEncoded(t *testing.T) {
	round := func(id uint32, keys []uint64, latency, isPut bool) bool {
		if len(keys) == 0 || len(keys) > MaxCount {
			return true
		}
		flags := uint8(0)
		if latency {
			flags = WithLatency
		}
		values := make([]byte, len(keys)*record.Size)
		for at := range values {
			values[at] = byte(at * 7)
		}
		frame, op := AppendGet(nil, id, flags, keys...), Get
		if isPut {
			frame, op = AppendPut(nil, id, flags, values, keys...), Put
		}
		request, size, err := NextRequest(append(frame, 1, 2, 3))
		if err != nil || size != len(frame) || Needed(frame) != len(frame) || request.Op != op || request.ID != id ||
			request.Flags != flags || request.Count != len(keys) {
			return false
		}
		for number, key := range keys {
			if request.Key(number) != key {
				return false
			}
			if isPut && !bytes.Equal(request.Value(number), values[number*record.Size:][:record.Size]) {
				return false
			}
		}
		for cut := range min(len(frame), 40) {
			if _, size, err := NextRequest(frame[:cut]); size != 0 || err != nil {
				return false
			}
		}
		return true
	}
	if err := quick.Check(round, nil); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNoRequestIsSaid(t *testing.T) {
	get := func() []byte { return AppendGet(nil, 7, 0, 1, 2) }
	for name, wrong := range map[string]struct {
		frame []byte
		fatal bool
	}{
		"length 0":                {make([]byte, HeaderSize), true},
		"length too large":        {binary.LittleEndian.AppendUint32(nil, MaxRequest), true},
		"unknown operation":       {with(get(), 4, 9), false},
		"unknown flag":            {with(get(), 5, 2), false},
		"no keys":                 {appendHeader(nil, Get, 0, 0, 7, 0), false},
		"keys that are not there": {with(get(), 6, 3), false},
		"keys not counted":        {with(get(), 6, 1), false},
		"too many keys":           {AppendGet(nil, 7, 0, make([]uint64, MaxCount+1)...), false},
		"half a record":           {appendHeader(nil, Put, 0, 1, 7, 0), false},
		"stats with a body":       {append(appendHeader(nil, Stats, 0, 0, 7, 1), 0), false},
	} {
		_, size, err := NextRequest(wrong.frame)
		if err == nil || err.Fatal != wrong.fatal || !wrong.fatal && (size != len(wrong.frame) || err.ID != 7) {
			t.Errorf("%s: size %d, error %+v", name, size, err)
		}
	}
}

func with(frame []byte, at int, value byte) []byte {
	frame[at] = value
	return frame
}

func TestAReplyThatIsMalformedIsAnError(t *testing.T) {
	for name, body := range map[string]string{
		"a value is missing": "\x03",
		"no bitmap":          "",
		"bytes too many":     string(make([]byte, record.Size+5)) + "\x01",
	} {
		frame := make([]byte, HeaderSize)
		PutHeader(frame, uint8(Partial), 0, 2, 1, len(body))
		reply, _, err := NextReply(append(frame, body...))
		if err == nil {
			err = reply.Values(func(int, []byte) {})
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzFrame: whatever comes, decoding neither fails otherwise than by an error nor reads beyond the frame.
func FuzzFrame(f *testing.F) {
	f.Add(AppendGet(nil, 1, 0, 1, 2, 3))
	f.Add(AppendPut(nil, 1, WithLatency, make([]byte, record.Size), 4))
	f.Add(AppendStats(nil, 9))
	f.Add(AppendReply(nil, Partial, 9, 1, "\xff\x01"))
	f.Fuzz(func(t *testing.T, input []byte) {
		request, size, err := NextRequest(input)
		if err == nil && size > 0 {
			for number := range request.Count {
				request.Key(number)
				if request.Op == Put && len(request.Value(number)) != record.Size {
					t.Error("a value of another length")
				}
			}
		}
		if size > len(input) {
			t.Errorf("a frame of %d bytes in %d", size, len(input))
		}
		reply, size, replyErr := NextReply(input)
		if replyErr == nil && size > 0 {
			_ = reply.Values(func(number int, value []byte) {
				if number >= reply.Count || len(value) != record.Size {
					t.Error("a value that was not asked for")
				}
			})
		}
	})
}
