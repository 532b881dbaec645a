package load

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Statuses of a burst in the log, those of HTTP.
const (
	allGood     = 200
	someMissing = 404
	someRefused = 500
	noReply     = -1
)

// lines is a log with a line for each burst, as h2load writes it for each request: its start in us since the epoch, a
// status, and the time to the last reply in us.
type lines struct{ text bytes.Buffer }

func (l *lines) add(start time.Time, status int, took time.Duration) {
	line := strconv.AppendInt(l.text.AvailableBuffer(), start.UnixMicro(), 10)
	line = append(line, '\t')
	line = strconv.AppendInt(line, int64(status), 10)
	line = append(line, '\t')
	line = strconv.AppendInt(line, took.Microseconds(), 10)
	l.text.Write(append(line, '\n'))
}

// writeLog writes the lines of all threads, in no order of time.
func writeLog(path string, workers []*worker) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	for _, w := range workers {
		if _, err := file.Write(w.lines.text.Bytes()); err != nil {
			_ = file.Close()
			return fmt.Errorf("log: %w", err)
		}
	}
	return file.Close()
}
