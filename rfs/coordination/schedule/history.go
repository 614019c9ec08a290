package schedule

import (
	"math"
	"time"
)

// Remaining is the progress of the migration as of a node's last read of the coordination store.
type Remaining struct {
	Items, ItemsFailed, ItemsOpen int64
	Shards, ShardsDone            int64
	Indexed, Failed, Filtered     int64 // documents
	Kept                          int64 // likewise
	Bytes, BytesDone              int64 // of the repository
}

// BytesLeft returns the bytes that are still to be read.
func (l Remaining) BytesLeft() int64 { return max(l.Bytes-l.BytesDone, 0) }

// Sample is the work of a fleet in one time span.
type Sample struct {
	Begin     int64 `json:"t"` // epoch ms by the store's clock
	Took      int64 `json:"n"` // ms
	Bytes     int64 `json:"b"` // of the repository
	Documents int64 `json:"d"`
	Worked    int64 `json:"w"` // ms, summed over all workers
}

// History is the throughput of a fleet since its start, in bounded space: when it is full, neighbouring samples are merged, so that each
// covers twice the time. Idle times are omitted.
type History struct {
	Step    int64    `json:"step"` // minimum ms of a sample
	Samples []Sample `json:"points,omitempty"`
}

const (
	// MaxSamples is the maximum number of samples of a history.
	MaxSamples = 128
	minStepMs  = int64(30 * time.Second / time.Millisecond)
)

// Add appends a sample.
func (h *History) Add(p Sample) {
	if p.Took <= 0 || p.Bytes < 0 || p.Documents < 0 || p.Worked < 0 {
		return // work was repeated, or a clock was set
	}
	h.Step = max(h.Step, minStepMs)
	if n := len(h.Samples); n > 0 && h.Samples[n-1].Took < h.Step {
		h.Samples[n-1] = h.Samples[n-1].merge(p)
		return
	}
	if h.Samples = append(h.Samples, p); len(h.Samples) <= MaxSamples {
		return
	}
	for len(h.Samples) > MaxSamples/2+1 {
		merged := h.Samples[:0]
		for i := 0; i < len(h.Samples); i += 2 {
			if i+1 == len(h.Samples) {
				merged = append(merged, h.Samples[i])
				break
			}
			merged = append(merged, h.Samples[i].merge(h.Samples[i+1]))
		}
		h.Samples, h.Step = merged, min(2*h.Step, math.MaxInt64/4)
	}
}

func (p Sample) merge(q Sample) Sample {
	return Sample{Begin: p.Begin, Took: p.Took + q.Took, Bytes: p.Bytes + q.Bytes, Documents: p.Documents + q.Documents, Worked: p.Worked + q.Worked}
}

// Throughput is a mean over some time; zero values mean unknown.
type Throughput struct {
	Bytes     float64 // of the repository, per second
	Documents float64 // per second
	Worker    float64 // bytes per second of one worker
}

// recentWindow is the part of the history that Recent averages. It is long enough that the end of a big shard, or a pause of the target,
// has little effect.
const recentWindow = 15 * time.Minute

// Recent returns the mean over the last recentWindow of work, or over the whole history if it is shorter. It ignores invalid
// samples, since a history may come from another node.
func (h History) Recent() Throughput {
	var bytes, documents, took, worked float64
	for i := len(h.Samples) - 1; i >= 0 && took < float64(recentWindow/time.Millisecond); i-- {
		p := h.Samples[i]
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

// Last returns the last n samples of the history, from which the current throughput is computed.
func (h History) Last(n int) History {
	h.Samples = h.Samples[max(len(h.Samples)-n, 0):]
	return h
}

// maxEstimate is the longest estimate that is reported.
const maxEstimate = 10 * 365 * 24 * time.Hour

// Estimate returns the seconds needed for the remaining bytes; nil if that cannot be estimated.
func Estimate(left int64, bytesPerSecond float64) *float64 {
	if left < 0 || !(bytesPerSecond > 0) || math.IsInf(bytesPerSecond, 0) {
		return nil
	}
	seconds := float64(left) / bytesPerSecond
	if seconds > maxEstimate.Seconds() {
		return nil
	}
	return &seconds
}
