package progress

import "time"

const (
	// window is the time over which the rates of a View are measured.
	window = time.Minute
	// quietAfter is the time without an arriving document after which a View reports it.
	quietAfter = 10 * time.Second
)

// Work is the work done by one process, or by all processes of a session. The numbers only grow.
type Work struct {
	Documents   int64 // indexed, kept or failed
	Failed      int64 // part of Documents
	SourceBytes int64 // size of the sources
	Bytes       int64 // read from the repository
	Running     int64 // items in progress
}

// Work returns the work in the counts of a session.
func (c Counts) Work() Work {
	return Work{Documents: c.Indexed + c.Kept + c.Failed, Failed: c.Failed, SourceBytes: c.SourceBytes, Bytes: c.BytesDone, Running: c.Leased}
}

// more reports whether w is ahead of o.
func (w Work) more(o Work) bool { return w.Documents > o.Documents || w.Bytes > o.Bytes }

// plus returns the sum, with the items in progress of w.
func (w Work) plus(o Work) Work {
	w.Documents, w.Failed, w.SourceBytes, w.Bytes = w.Documents+o.Documents, w.Failed+o.Failed, w.SourceBytes+o.SourceBytes, w.Bytes+o.Bytes
	return w
}

// minus returns the difference; negative numbers become 0.
func (w Work) minus(o Work) Work {
	return Work{
		Documents: max(w.Documents-o.Documents, 0), Failed: max(w.Failed-o.Failed, 0), SourceBytes: max(w.SourceBytes-o.SourceBytes, 0), Bytes: max(w.Bytes-o.Bytes, 0),
	}
}

// atLeast returns the larger of each number.
func (w Work) atLeast(o Work) Work {
	return Work{
		Documents: max(w.Documents, o.Documents), Failed: max(w.Failed, o.Failed), SourceBytes: max(w.SourceBytes, o.SourceBytes),
		Bytes: max(w.Bytes, o.Bytes), Running: max(w.Running, o.Running),
	}
}

// Measure derives the rates and the remaining time of a session from samples of its work. All programs use it. The zero value is ready.
type Measure struct {
	// Lag is the maximum delay between work and samples, for samples of a store in which workers record periodically.
	Lag time.Duration

	begin  sample   // the last one before any growth
	points []sample // of the last minute, when the work grew; the first is the start of the minute
	last   sample
	grown  time.Duration // when the work last grew, or no item was in progress
	any    bool
}

type sample struct {
	at  time.Duration // monotonic clock
	sum Work
}

// Add adds a sample of the work at a time of the monotonic clock.
func (m *Measure) Add(at time.Duration, sum Work) {
	s := sample{at, sum}
	before := m.last
	m.last = s
	if !m.any || sum.more(before.sum) || sum.Running == 0 {
		m.grown = at
	}
	switch {
	case !m.any, len(m.points) == 1 && before.sum.Running == 0 && !sum.more(m.points[0].sum):
		m.any, m.begin, m.points = true, s, []sample{s}
	case sum.Documents < before.sum.Documents || sum.Bytes < before.sum.Bytes: // items were opened again
		m.points = []sample{s}
	case sum.more(m.points[len(m.points)-1].sum):
		m.points = append(m.points, s)
	}
	for len(m.points) > 2 && at-m.points[1].at >= window {
		m.points = m.points[1:]
	}
}

// span returns the first and the last point of the last minute, and the time between them. The time is extended if the work has not grown
// for longer than between any two points.
func (m *Measure) span(now time.Duration) (first, last sample, took time.Duration) {
	if len(m.points) == 0 {
		return sample{}, sample{}, 0
	}
	first, last = m.points[0], m.points[len(m.points)-1]
	longest := time.Duration(0)
	for i, p := range m.points[1:] {
		longest = max(longest, p.at-m.points[i].at)
	}
	took = last.at - first.at
	if idle := now - last.at; idle > longest+m.Lag {
		took += idle
	}
	return first, last, took
}

// rates sets the rates of v, and the time since a document last arrived.
func (m *Measure) rates(v *View, now time.Duration) {
	first, last, took := m.span(now)
	done := last.sum.minus(first.sum)
	if seconds := took.Seconds(); seconds > 0 {
		v.Rate, v.SourceRate, v.ByteRate = float64(done.Documents)/seconds, float64(done.SourceBytes)/seconds, float64(done.Bytes)/seconds
	}
	if took := (m.last.at - m.begin.at).Seconds(); took > 0 {
		v.Mean = float64(m.last.sum.minus(m.begin.sum).Documents) / took
	}
	quiet := now - m.grown
	if m.last.sum.Running > 0 && quiet >= quietAfter+m.Lag {
		v.Quiet = quiet.Truncate(time.Second).Seconds()
	}
}
