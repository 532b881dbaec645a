package stressor

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func plan(kind string) Plan {
	return Plan{Kind: kind, Threads: 1, Duty: 1, Seconds: 0.1, Every: time.Hour, Bytes: 1 << 20}
}

func TestEveryKindWorksAndSaysHowMuch(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) {
			p := plan(kind)
			p.Threads, p.Directory = 2, t.TempDir()
			var reports []Report
			if err := Run(t.Context(), p, func(r Report) { reports = append(reports, r) }); err != nil {
				t.Fatal(err)
			}
			if len(reports) != 1 || reports[0].Done <= 0 || reports[0].PerSecond <= 0 || reports[0].Unit == "" {
				t.Errorf("%+v", reports)
			}
			if left, _ := filepath.Glob(p.Directory + "/*"); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestTheDutyCycleIsKept: a tenth of the time gives well under half of the work.
func TestTheDutyCycleIsKept(t *testing.T) {
	done := map[float64]float64{}
	for _, duty := range []float64{0.1, 1} {
		p := plan("gemm")
		p.Duty, p.Seconds = duty, 0.5
		if err := Run(t.Context(), p, func(r Report) { done[duty] += r.Done }); err != nil {
			t.Fatal(err)
		}
	}
	if ratio := done[0.1] / done[1]; ratio > 0.5 {
		t.Errorf("a duty of 0.1 does %.2f of the work of 1", ratio)
	}
}

func TestItEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := plan("l2")
	p.Seconds = 0
	cancel()
	if err := Run(ctx, p, func(Report) {}); err != nil {
		t.Fatal(err)
	}
}

func TestACPUThatIsNotThereIsNamed(t *testing.T) {
	p := plan("gemm")
	p.CPUs = []int{1023}
	if err := Run(t.Context(), p, func(Report) {}); err == nil || !strings.Contains(err.Error(), "CPU 1023") {
		t.Errorf("%v", err)
	}
}

func TestWrongPlansAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Plan){
		"--kind":    func(p *Plan) { p.Kind = "l4" },
		"--threads": func(p *Plan) { p.Threads = 0 },
		"--duty":    func(p *Plan) { p.Duty = 1.1 },
		"--seconds": func(p *Plan) { p.Seconds = -1 },
		"--bytes":   func(p *Plan) { p.Bytes = -1 },
	} {
		p := plan("gemm")
		change(&p)
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestListsOfCPUs(t *testing.T) {
	found, err := ParseCPUs("0-2,8")
	if err != nil || !slices.Equal(found, []int{0, 1, 2, 8}) {
		t.Errorf("%v, %v", found, err)
	}
	for _, wrong := range []string{"a", "3-1", "-1", "1,", "9999"} {
		if _, err := ParseCPUs(wrong); err == nil {
			t.Errorf("%q is no list", wrong)
		}
	}
}

// TestSizesComeFromTheMachine, and are the usual ones where it does not say.
func TestSizesComeFromTheMachine(t *testing.T) {
	directory := t.TempDir()
	if found := readCaches(directory); found != usual {
		t.Errorf("%+v", found)
	}
	for index, about := range [][3]string{{"1", "Data", "48K"}, {"1", "Instruction", "64K"}, {"2", "Unified", "2048K"}, {"3", "Unified", "33M"}} {
		at := filepath.Join(directory, "index"+string(rune('0'+index)))
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"level", "type", "size"} {
			if err := os.WriteFile(filepath.Join(at, name), []byte(about[i]+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if found := readCaches(directory); found != (Caches{48 << 10, 64 << 10, 2 << 20, 33 << 20}) {
		t.Errorf("%+v", found)
	}
}

// TestTheCycleOfLinesVisitsAll: each line once, and back to the first.
func TestTheCycleOfLinesVisitsAll(t *testing.T) {
	made, err := newLines(100*lineBytes, "")
	if err != nil {
		t.Fatal(err)
	}
	defer made.close()
	l := made.(*lines)
	seen := map[uint32]bool{}
	at := uint32(0)
	for range len(l.memory) / lineBytes {
		seen[at] = true
		at = uint32(l.memory[at*lineBytes]) | uint32(l.memory[at*lineBytes+1])<<8
	}
	if len(seen) != 100 || at != 0 {
		t.Errorf("%d of 100 lines, back at %d", len(seen), at)
	}
}
