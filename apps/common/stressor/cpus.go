package stressor

import (
	"fmt"
	"strconv"
	"strings"
)

const mostCPUs = 8192 // that the kernel can be built for

// ParseCPUs reads a list such as 0-3,8; an empty one has no CPUs.
func ParseCPUs(text string) ([]int, error) {
	var cpus []int
	if text == "" {
		return nil, nil
	}
	for _, part := range strings.Split(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		first, err := strconv.Atoi(low)
		last, err2 := strconv.Atoi(high)
		if err != nil || err2 != nil || first < 0 || last < first || last >= mostCPUs {
			return nil, fmt.Errorf("--cpus %q: allowed are numbers and ranges such as 0-3,8", text)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
