package disk

import (
	"slices"
	"strconv"
	"strings"
)

// Generations are those of the files among names that are a prefix and a number, in their order.
func Generations(names []string, prefix string) []uint64 {
	var generations []uint64
	for _, name := range names {
		if digits, isOne := strings.CutPrefix(name, prefix); isOne {
			if generation, err := strconv.ParseUint(digits, 10, 64); err == nil {
				generations = append(generations, generation)
			}
		}
	}
	slices.Sort(generations)
	return generations
}
