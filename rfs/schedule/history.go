package schedule

import (
	"math"
	"time"
)

// Left is what a node knows of the migration by its last reading of the coordination store.
type Left struct {
	Items, ItemsFailed, ItemsOpen int64
	Shards, ShardsDone            int64
	Indexed, Failed, Filtered     int64 // documents
	Bytes, BytesDone              int64 // of the repository
}

// BytesLeft are to be read yet.
func (l Left) BytesLeft() int64 { return max(l.Bytes-l.BytesDone, 0) }

// Point is what a fleet did in a span of time.
type Point struct {
	Begin     int64 `json:"t"` // epoch ms by the store's clock
	Took      int64 `json:"n"` // ms
	Bytes     int64 `json:"b"` // of the repository
	Documents int64 `json:"d"`
	Worked    int64 `json:"w"` // ms, of all workers together
}

// History is the throughput of a fleet from the begin of its work, in bounded space: when it is full, neighbours are merged and
// each point covers twice the time. Times in which nobody worked are left out.
type History struct {
	Step   int64   `json:"step"` // ms that a point covers at least
	Points []Point `json:"points,omitempty"`
}

const (
	// MaxPoints is how many points a history has at most.
	MaxPoints = 128
	firstStep = int64(30 * time.Second / time.Millisecond)
)

// Add adds a span at the end.
func (h *History) Add(p Point) {
	if p.Took <= 0 || p.Bytes < 0 || p.Documents < 0 || p.Worked < 0 {
		return // what was done is done again, or a clock was set
	}
	h.Step = max(h.Step, firstStep)
	if n := len(h.Points); n > 0 && h.Points[n-1].Took < h.Step {
		h.Points[n-1] = h.Points[n-1].and(p)
		return
	}
	if h.Points = append(h.Points, p); len(h.Points) <= MaxPoints {
		return
	}
	for len(h.Points) > MaxPoints/2+1 {
		merged := h.Points[:0]
		for i := 0; i < len(h.Points); i += 2 {
			if i+1 == len(h.Points) {
				merged = append(merged, h.Points[i])
				break
			}
			merged = append(merged, h.Points[i].and(h.Points[i+1]))
		}
		h.Points, h.Step = merged, min(2*h.Step, math.MaxInt64/4)
	}
}

func (p Point) and(q Point) Point {
	return Point{Begin: p.Begin, Took: p.Took + q.Took, Bytes: p.Bytes + q.Bytes, Documents: p.Documents + q.Documents, Worked: p.Worked + q.Worked}
}

// Throughput is a mean over some time; zero values are not known.
type Throughput struct {
	Bytes     float64 // of the repository, per second
	Documents float64 // per second
	Worker    float64 // bytes per second of one worker
}

// recently is over how much of the history the mean is taken: long enough that a big shard's end or a pause of the target
// does not move it much.
const recently = 15 * time.Minute

// Recent is the mean over the last quarter of an hour of work, or all of it when it was shorter. It believes nothing that
// cannot be: a history may come from anybody.
func (h History) Recent() Throughput {
	var bytes, documents, took, worked float64
	for i := len(h.Points) - 1; i >= 0 && took < float64(recently/time.Millisecond); i-- {
		p := h.Points[i]
		if p.Took <= 0 || p.Bytes < 0 || p.Documents < 0 || p.Worked < 0 {
			continue
		}
		bytes, documents = bytes+float64(p.Bytes), documents+float64(p.Documents)
		took, worked = took+float64(p.Took), worked+float64(p.Worked)
	}
	var t Throughput
	if took > 0 {
		t.Bytes, t.Documents = bytes*1000/took, documents*1000/took
	}
	if worked > 0 {
		t.Worker = bytes * 1000 / worked
	}
	return t
}

// Last is the end of the history: at most n points, for those who want to know how quick it is now.
func (h History) Last(n int) History {
	h.Points = h.Points[max(len(h.Points)-n, 0):]
	return h
}

// longest is the longest estimate that is told.
const longest = 10 * 365 * 24 * time.Hour

// Estimate is how many seconds it takes to read the bytes that are left; nil when nobody can know.
func Estimate(left int64, bytesPerSecond float64) *float64 {
	if left < 0 || !(bytesPerSecond > 0) || math.IsInf(bytesPerSecond, 0) {
		return nil
	}
	seconds := float64(left) / bytesPerSecond
	if seconds > longest.Seconds() {
		return nil
	}
	return &seconds
}
