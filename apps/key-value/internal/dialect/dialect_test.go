package dialect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/quick"

	"tailor/apps/key-value/internal/record"
	"tailor/apps/key-value/internal/wire"
)

func valueOf(key uint64) []byte {
	return bytes.Repeat(binary.LittleEndian.AppendUint64(nil, key*31+7), record.Size/8)
}

// replies are how each server answers a get of keys, some of which it has.
var replies = map[string]func(keys []uint64, has func(key uint64) bool) string{
	"native": func(keys []uint64, has func(uint64) bool) string {
		var values, bitmap []byte
		bitmap = make([]byte, wire.BitmapSize(len(keys)))
		status := wire.OK
		for number, key := range keys {
			if has(key) {
				values = append(values, valueOf(key)...)
				bitmap[number/8] |= 1 << (number % 8)
			} else {
				status = wire.Partial
			}
		}
		if status == wire.Partial {
			values = append(values, bitmap...)
		}
		return string(wire.AppendReply(nil, status, len(keys), 1, string(values)))
	},
	"redis": func(keys []uint64, has func(uint64) bool) string {
		var text strings.Builder
		if len(keys) > 1 {
			fmt.Fprintf(&text, "*%d\r\n", len(keys))
		}
		for _, key := range keys {
			if has(key) {
				fmt.Fprintf(&text, "$1024\r\n%s\r\n", valueOf(key))
			} else {
				text.WriteString("$-1\r\n")
			}
		}
		return text.String()
	},
	"memcached": func(keys []uint64, has func(uint64) bool) string {
		if len(keys) == 1 {
			if has(keys[0]) {
				return fmt.Sprintf("VA 1024\r\n%s\r\n", valueOf(keys[0]))
			}
			return "EN\r\n"
		}
		var text strings.Builder
		for _, key := range keys {
			if has(key) {
				fmt.Fprintf(&text, "VALUE %d 0 1024\r\n%s\r\n", key, valueOf(key))
			}
		}
		return text.String() + "END\r\n"
	},
}

// TestRepliesToGets: whole ones, behind which another follows, and every beginning of one, which is none yet.
func TestRepliesToGets(t *testing.T) {
	for name, reply := range replies {
		speaks, err := Of(name)
		if err != nil {
			t.Fatal(err)
		}
		check := func(keys []uint64, bits uint64) bool {
			keys = keys[:min(len(keys), 20)]
			if len(keys) == 0 {
				return true
			}
			has := func(key uint64) bool { return (key^bits)%3 > 0 }
			text := reply(keys, has)
			into, found := make([][]byte, len(keys)), make([]bool, len(keys))
			for i := range into {
				into[i] = make([]byte, record.Size)
			}
			for cut := 0; cut < len(text); cut += 1 + cut/7 {
				if size, err := speaks.GetReply([]byte(text[:cut]), keys, into, found); size != 0 || err != nil {
					t.Logf("%s: %d of %d bytes are taken for a reply (%v)", name, cut, len(text), err)
					return false
				}
			}
			size, err := speaks.GetReply([]byte(text+text), keys, into, found)
			if err != nil || size != len(text) {
				t.Logf("%s: size %d of %d, %v", name, size, len(text), err)
				return false
			}
			for i, key := range keys {
				if found[i] != has(key) || found[i] && !bytes.Equal(into[i], valueOf(key)) {
					t.Logf("%s: key %d", name, key)
					return false
				}
			}
			return true
		}
		if err := quick.Check(check, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRepliesToPuts(t *testing.T) {
	full := string(wire.AppendReply(nil, wire.Full, 0, 1, "no room"))
	for _, row := range []struct {
		name, text string
		isRefused  bool
		isWrong    bool
	}{
		{"native", string(wire.AppendReply(nil, wire.OK, 1, 1, "")), false, false},
		{"native", full, true, false},
		{"redis", "+OK\r\n", false, false},
		{"redis", "-OOM command not allowed\r\n", true, false},
		{"redis", ":1\r\n", false, true},
		{"memcached", "HD\r\n", false, false},
		{"memcached", "NS\r\n", true, false},
		{"memcached", "SERVER_ERROR out of memory storing object\r\n", true, false},
		{"memcached", "ERROR\r\n", false, true},
	} {
		speaks, _ := Of(row.name)
		if size, _, _ := speaks.PutReply([]byte(row.text[:len(row.text)-1])); size != 0 {
			t.Errorf("%s: a part of %q is taken for a reply", row.name, row.text)
		}
		size, refused, err := speaks.PutReply([]byte(row.text))
		if (refused != nil) != row.isRefused || (err != nil) != row.isWrong || err == nil && size != len(row.text) {
			t.Errorf("%s, %q: size %d, refused %v, error %v", row.name, row.text, size, refused, err)
		}
	}
}

// TestRequestsAreThoseOfTheProtocols compares with what their documents show.
func TestRequestsAreThoseOfTheProtocols(t *testing.T) {
	value := strings.Repeat("v", record.Size)
	values := [][]byte{[]byte(value), []byte(value)}
	for _, row := range []struct {
		got  []byte
		want string
	}{
		{Redis{}.Get(nil, []uint64{12}), "*2\r\n$3\r\nGET\r\n$2\r\n12\r\n"},
		{Redis{}.Get(nil, []uint64{1, 345}), "*3\r\n$4\r\nMGET\r\n$1\r\n1\r\n$3\r\n345\r\n"},
		{Redis{}.Put(nil, []uint64{12}, values), "*3\r\n$3\r\nSET\r\n$2\r\n12\r\n$1024\r\n" + value + "\r\n"},
		{
			Redis{}.Put(nil, []uint64{1, 2}, values),
			"*5\r\n$4\r\nMSET\r\n$1\r\n1\r\n$1024\r\n" + value + "\r\n$1\r\n2\r\n$1024\r\n" + value + "\r\n",
		},
		{Memcached{}.Get(nil, []uint64{12}), "mg 12 v\r\n"},
		{Memcached{}.Get(nil, []uint64{1, 345}), "get 1 345\r\n"},
		{Memcached{}.Put(nil, []uint64{12}, values), "ms 12 1024\r\n" + value + "\r\n"},
	} {
		if string(row.got) != row.want {
			t.Errorf("%.80q, wanted %.80q", row.got, row.want)
		}
	}
	request, _, err := wire.NextRequest(Native{WithLatency: true}.Put(nil, []uint64{5, 6}, values))
	if err != nil || request.Key(1) != 6 || string(request.Value(1)) != value || request.Flags != wire.WithLatency {
		t.Errorf("%+v, %v", request, err)
	}
}

func TestUsageOfEachServer(t *testing.T) {
	redis := "used_cpu_sys:1.5\r\nused_cpu_user:2.25\r\ndb0:keys=7,expires=0\r\n"
	for name, text := range map[string]string{
		"native":    string(wire.AppendReply(nil, wire.OK, 0, 1, `{"cpu_seconds": 3.75, "engine": {"records": 7}}`)),
		"redis":     fmt.Sprintf("$%d\r\n%s\r\n", len(redis), redis),
		"memcached": "STAT rusage_user 2.25\r\nSTAT rusage_system 1.5\r\nSTAT curr_items 7\r\nEND\r\n",
	} {
		speaks, _ := Of(name)
		if usage, size, err := speaks.UsageReply([]byte(text[:len(text)-1])); size != 0 || err != nil {
			t.Errorf("%s: a part of a reply: %+v, %v", name, usage, err)
		}
		usage, size, err := speaks.UsageReply([]byte(text))
		if err != nil || size != len(text) || usage.CPUSeconds != 3.75 || usage.Records != 7 {
			t.Errorf("%s: %+v, size %d, %v", name, usage, size, err)
		}
	}
}

// FuzzReplies: whatever a server sends, decoding ends with a size within it or an error.
func FuzzReplies(f *testing.F) {
	for _, reply := range replies {
		f.Add([]byte(reply([]uint64{1, 2}, func(key uint64) bool { return key == 2 })))
		f.Add([]byte(reply([]uint64{1}, func(uint64) bool { return true })))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		for name := range replies {
			speaks, _ := Of(name)
			for _, keys := range [][]uint64{{1}, {1, 2}} {
				size, err := speaks.GetReply(input, keys, nil, make([]bool, len(keys)))
				_, _, putErr := speaks.PutReply(input)
				_, _, usageErr := speaks.UsageReply(input)
				if size > len(input) || size < 0 {
					t.Errorf("%s: size %d of %d (%v)", name, size, len(input), errors.Join(err, putErr, usageErr))
				}
			}
		}
	})
}
