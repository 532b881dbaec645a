package stressor

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// jumps runs code that is larger than the instruction cache: one jump in each line, through all lines in a random
// order, and a return in the last.  The code touches no register and no stack, so that Go may call it like a function.
type jumps struct {
	code  []byte
	call  func()
	count int
}

func newJumps(bytes int, _ string) (load, error) {
	count := max(bytes/lineBytes, 2)
	code, err := unix.Mmap(-1, 0, count*lineBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	order := rand.New(rand.NewPCG(1, uint64(count))).Perm(count)
	// The call enters at the first byte: begin the cycle there.
	for order[0] != 0 {
		order = append(order[1:], order[0])
	}
	for i, line := range order {
		if i+1 == count {
			err = putReturn(code[line*lineBytes:])
		} else {
			err = putJump(code[line*lineBytes:], (order[i+1]-line)*lineBytes)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := unix.Mprotect(code, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		return nil, fmt.Errorf("the code cannot be made executable: %w", err)
	}
	// A func value is a pointer to a closure, whose first word is the address of its code.
	entry := &struct{ code unsafe.Pointer }{unsafe.Pointer(&code[0])}
	return &jumps{code, *(*func())(unsafe.Pointer(&entry)), count}, nil
}

// putJump writes a relative jump over distance bytes, from the beginning of the instruction.
func putJump(at []byte, distance int) error {
	switch runtime.GOARCH {
	case "amd64": // jmp rel32, counted from its end (Intel SDM, JMP: E9 cd)
		at[0] = 0xE9
		binary.LittleEndian.PutUint32(at[1:], uint32(int32(distance-5)))
	case "arm64": // b imm26, in words (Arm ARM, B)
		binary.LittleEndian.PutUint32(at, 0x14000000|uint32(distance/4)&0x03FFFFFF)
	default:
		return fmt.Errorf("no code for %s", runtime.GOARCH)
	}
	return nil
}

func putReturn(at []byte) error {
	switch runtime.GOARCH {
	case "amd64":
		at[0] = 0xC3
	case "arm64":
		binary.LittleEndian.PutUint32(at, 0xD65F03C0)
	default:
		return fmt.Errorf("no code for %s", runtime.GOARCH)
	}
	return nil
}

func (j *jumps) step() (float64, error) {
	j.call()
	return float64(j.count), nil
}

func (j *jumps) close() { _ = unix.Munmap(j.code) }
