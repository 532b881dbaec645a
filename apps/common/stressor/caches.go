package stressor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Caches are the sizes of a CPU's caches in bytes.
type Caches struct{ L1d, L1i, L2, L3 int }

// usual is taken where the kernel does not say, as in many virtual machines.
var usual = Caches{L1d: 32 << 10, L1i: 32 << 10, L2: 1 << 20, L3: 32 << 20}

// ReadCaches reads the caches of a CPU from sysfs.
func ReadCaches(cpu int) Caches {
	return readCaches(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/cache", cpu))
}

func readCaches(directory string) Caches {
	found := usual
	paths, _ := filepath.Glob(directory + "/index*") // its pattern is well formed
	for _, path := range paths {
		size := bytesOf(textOf(path + "/size"))
		if size == 0 {
			continue
		}
		switch textOf(path+"/level") + textOf(path+"/type") {
		case "1Data", "1Unified":
			found.L1d = size
		case "1Instruction":
			found.L1i = size
		case "2Unified", "2Data":
			found.L2 = size
		case "3Unified":
			found.L3 = size
		}
	}
	return found
}

func textOf(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// bytesOf reads a size as the kernel writes it: 32K, 2048K, 33M; 0 for anything else.
func bytesOf(text string) int {
	shift := 0
	if trimmed, isKiB := strings.CutSuffix(text, "K"); isKiB {
		text, shift = trimmed, 10
	} else if trimmed, isMiB := strings.CutSuffix(text, "M"); isMiB {
		text, shift = trimmed, 20
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 0 {
		return 0
	}
	return number << shift
}
