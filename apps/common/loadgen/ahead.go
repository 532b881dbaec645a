package loadgen

// A run that forgets makes its requests while it sends others: in parts, so that whoever makes them wakes up once for
// many requests, and not at each that is sent.
const (
	partSize   = 64
	partsAhead = 32
)

// shot is one request with all that its sending needs.
type shot struct {
	index   int
	request *Request
	trace   *traceID
	wire    []byte  // where the request is a plain one: its bytes as they go over a connection
	refused string  // why it cannot be sent
	flight  *flight // in a live run
}

// held returns the requests of the schedule one by one.
func (s *sender) held() func() (shot, bool) {
	index := 0
	return func() (shot, bool) {
		if index == len(s.requests) {
			return shot{}, false
		}
		made := shot{index: index, request: &s.requests[index], trace: &s.traces[index], wire: s.wires[index]}
		index++
		return made, true
	}
}

// ahead makes the requests of the same schedule one by one until stop is closed, and holds only the next ones.
func (s *sender) ahead(stop <-chan struct{}) func() (shot, bool) {
	parts := make(chan []shot, partsAhead)
	go func() {
		defer close(parts)
		series := newSeries(s.plan, s.workload)
		for {
			part := s.part(series)
			if len(part) == 0 {
				return
			}
			select {
			case parts <- part:
			case <-stop:
				return
			}
		}
	}()
	var part []shot
	return func() (shot, bool) {
		if len(part) == 0 {
			part = <-parts // empty when there are no more
		}
		if len(part) == 0 {
			return shot{}, false
		}
		made := part[0]
		part = part[1:]
		return made, true
	}
}

// part makes the next requests of a series; none at its end.
func (s *sender) part(series *series) []shot {
	part, ids := make([]shot, 0, partSize), newTraceIDs(partSize)
	for number := range partSize {
		index := series.made
		request, more := series.next()
		if !more {
			break
		}
		made := shot{index: index, request: &request, trace: &ids[number]}
		if err := s.encodeMessage(&request); err != nil {
			made.refused = reasonMessage
		}
		made.wire = s.toWire(&request, made.trace)
		part = append(part, made)
	}
	return part
}
