package loadgen

import (
	"os"
	"path/filepath"
	"testing"
)

// Tailor checks a workload before any start, and the generator checks it again: both must agree.  The cases are read by
// tests/unit/test_workload.py too.
func TestWorkloadsAreJudgedAsTailorDoes(t *testing.T) {
	for _, kind := range []string{"good", "bad"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", "tests", "cases", kind, "workloads", "*.json"))
		if err != nil || len(files) < 5 {
			t.Fatalf("%d %s cases, %v", len(files), kind, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ReadWorkload(data, nil); (err == nil) != (kind == "good") {
				t.Errorf("%s %s: %v", kind, filepath.Base(file), err)
			}
		}
	}
}
