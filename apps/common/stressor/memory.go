package stressor

import (
	"math/rand/v2"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	lineBytes   = 64
	leastStream = 64 << 20  // a stream that some machine's last cache does not hold
	mostBytes   = 256 << 20 // of a thread: a few of them fit into any machine's memory
	stepLines   = 4096      // about 10 microseconds in a cache, a few hundred in memory
)

// nothing is for loads without anything to close.
type nothing struct{}

func (nothing) close() {}

// mapped is memory straight from the kernel, which Go's runtime neither looks at nor moves, touched so that it is there.
func mapped(bytes int) ([]byte, error) {
	memory, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	for at := 0; at < bytes; at += unix.Getpagesize() {
		memory[at] = 1
	}
	return memory, nil
}

// lines visits the lines of a working set in a random cycle, each of which says which comes next, and writes to each:
// no prefetcher knows the way, and every visit is a write that the cache has to keep.
type lines struct {
	memory []byte
	at     uint32
}

func newLines(bytes int, _ string) (load, error) {
	memory, err := mapped(max(bytes, 2*lineBytes))
	if err != nil {
		return nil, err
	}
	count := len(memory) / lineBytes
	order := rand.New(rand.NewPCG(1, uint64(count))).Perm(count)
	for i, line := range order {
		*(*uint32)(unsafe.Pointer(&memory[line*lineBytes])) = uint32(order[(i+1)%count])
	}
	return &lines{memory: memory}, nil
}

func (l *lines) step() (float64, error) {
	at := l.at
	for range stepLines {
		line := unsafe.Pointer(&l.memory[int(at)*lineBytes])
		at = *(*uint32)(line)
		*(*uint32)(unsafe.Add(line, 8))++
	}
	l.at = at
	return stepLines, nil
}

func (l *lines) close() { _ = unix.Munmap(l.memory) }

// stream is the triad of the STREAM benchmark (McCalpin 1995), a = b + s c, over more than the last cache holds.
type stream struct {
	memory  []byte
	a, b, c []float64
	at      int
}

const streamPiece = 32 << 10 // numbers of each vector in a step: 768 KiB, some hundred microseconds

func newStream(bytes int, _ string) (load, error) {
	memory, err := mapped(max(bytes, 3*8*streamPiece))
	if err != nil {
		return nil, err
	}
	count := len(memory) / 24
	all := unsafe.Slice((*float64)(unsafe.Pointer(&memory[0])), 3*count)
	return &stream{memory: memory, a: all[:count], b: all[count : 2*count], c: all[2*count:]}, nil
}

func (s *stream) step() (float64, error) {
	if s.at+streamPiece > len(s.a) {
		s.at = 0
	}
	a, b, c := s.a[s.at:s.at+streamPiece], s.b[s.at:s.at+streamPiece], s.c[s.at:s.at+streamPiece]
	for i := range a {
		a[i] = b[i] + 3*c[i]
	}
	s.at += streamPiece
	return 24 * streamPiece, nil
}

func (s *stream) close() { _ = unix.Munmap(s.memory) }

// pages touches random pages of a large working set: what it costs is the translation of addresses and the memory that
// others do not have.
type pages struct {
	memory []byte
	page   int
	random *rand.Rand
}

const stepPages = 512

func newPages(bytes int, _ string) (load, error) {
	memory, err := mapped(max(bytes, unix.Getpagesize()))
	if err != nil {
		return nil, err
	}
	return &pages{memory, unix.Getpagesize(), rand.New(rand.NewPCG(1, 2))}, nil
}

func (p *pages) step() (float64, error) {
	count := len(p.memory) / p.page
	for range stepPages {
		p.memory[p.random.IntN(count)*p.page]++
	}
	return stepPages, nil
}

func (p *pages) close() { _ = unix.Munmap(p.memory) }

// gemm multiplies small matrices: arithmetic on what the nearest caches hold.
type gemm struct {
	nothing
	a, b, c [gemmSize][gemmSize]float64
}

const (
	gemmSize  = 48
	gemmBytes = 3 * 8 * gemmSize * gemmSize
)

func newGemm(int, string) (load, error) {
	g := &gemm{}
	for i := range gemmSize {
		for j := range gemmSize {
			g.a[i][j], g.b[i][j] = float64(i+j), float64(i-j)
		}
	}
	return g, nil
}

func (g *gemm) step() (float64, error) {
	for i := range gemmSize {
		for k := range gemmSize {
			factor := g.a[i][k]
			row, out := &g.b[k], &g.c[i]
			for j := range gemmSize {
				out[j] += factor * row[j]
			}
		}
	}
	for i := range gemmSize { // the sums stay small however long it runs
		g.c[i] = [gemmSize]float64{}
	}
	return 2 * gemmSize * gemmSize * gemmSize, nil
}
