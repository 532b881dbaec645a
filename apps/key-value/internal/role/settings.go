package role

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"tailor/apps/common/service"
	"tailor/apps/key-value/internal/engines"
	"tailor/apps/key-value/internal/record"
	"tailor/apps/key-value/internal/server"
	"tailor/apps/key-value/internal/table"
)

// BinaryAddress is where the binary protocol is spoken by default.
const BinaryAddress = ":7070"

// Names of the parameters in the environment; docs/reference/service-defaults.md says where the defaults come from.
const (
	threadsName       = "THREADS"
	shardsName        = "SHARDS"
	batchName         = "BATCH"
	bufferName        = "BUFFER_KIB"
	engineName        = "ENGINE"
	fsyncName         = "FSYNC"
	fsyncIntervalName = "FSYNC_INTERVAL_MS"
)

// Defaults.
const (
	defaultThreads       = 4          // memcached -t
	defaultShards        = 256        // freecache segmentCount
	defaultBatch         = 20         // memcached -R
	defaultBuffer        = 16         // redis PROTO_IOBUF_LEN [KiB]
	defaultFsync         = "interval" // redis appendfsync everysec
	defaultFsyncInterval = 1000       // the same [ms]
	defaultSnapshot      = 300        // [s]
	defaultConnections   = 8          // to a server that is the engine
	defaultCacheMiB      = 8          // pebble Options.CacheSize
)

// settings are what the environment says.
type settings struct {
	engine        string
	engineOptions engines.Options
	server        server.Options
}

// ports of servers that are engines.
var ports = map[string]string{"redis": "6379", "memcached": "11211"}

func read(p *service.Parameters) (settings, error) {
	r := reader{parameters: p}
	engine := r.word(engineName, "table", engines.Names()...)
	all := settings{
		engine: engine,
		server: server.Options{
			Address: p.Text("BINARY_ADDRESS", BinaryAddress),
			Threads: r.integer(1, threadsName, defaultThreads),
			Batch:   r.integer(1, batchName, defaultBatch),
			Buffer:  r.integer(4, bufferName, defaultBuffer) << 10,
		},
		engineOptions: engines.Options{
			Records:          r.integer(1, "RECORDS", mostRecords()),
			Shards:           r.integer(1, shardsName, defaultShards),
			Directory:        directory(p, engine),
			Fsync:            r.word(fsyncName, defaultFsync, "always", "interval", "never", "off"),
			FsyncInterval:    time.Duration(r.integer(1, fsyncIntervalName, defaultFsyncInterval)) * time.Millisecond,
			SnapshotInterval: time.Duration(r.integer(0, "SNAPSHOT_SECONDS", defaultSnapshot)) * time.Second,
			Address:          p.Text("ENGINE_ADDRESS", engine+":"+ports[engine]),
			Connections:      r.integer(1, "ENGINE_CONNECTIONS", defaultConnections),
			CacheBytes:       int64(r.integer(1, "CACHE_MIB", defaultCacheMiB)) << 20,
		},
	}
	return all, r.err
}

// directory is where an engine's data are: none without DIRECTORY, and each engine has its own.
func directory(p *service.Parameters, engine string) string {
	if all := p.Text("DIRECTORY", ""); all != "" {
		return filepath.Join(all, engine)
	}
	return ""
}

// reader keeps the first error, so that what is read can be written down in one piece.
type reader struct {
	parameters *service.Parameters
	err        error
}

func (r *reader) integer(least int, name string, byDefault int) int {
	value, err := r.parameters.IntegerFrom(least, name, byDefault)
	if err != nil && r.err == nil {
		r.err = err
	}
	return value
}

func (r *reader) word(name, byDefault string, allowed ...string) string {
	value, err := r.parameters.Word(name, byDefault, allowed...)
	if err != nil && r.err == nil {
		r.err = err
	}
	return value
}

// tableShare of the memory may hold records; indexes, connections and everything else need the rest.
const tableShare = 0.75

// mostRecords is how many records fit into the memory of this machine or container.
func mostRecords() int {
	bytes := machineMemory()
	if limit := containerLimit("/sys/fs/cgroup/memory.max"); limit > 0 {
		bytes = min(bytes, limit)
	}
	return min(max(int(tableShare*float64(bytes))/record.PairSize, 1), table.MaxRecords)
}

func machineMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 1 << 30
	}
	return int64(info.Totalram) * int64(info.Unit)
}

// containerLimit is what a cgroup's file says; 0 where it says nothing.
func containerLimit(path string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0 // "max"
	}
	return limit
}
