package metrics

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/files"
)

// The text format of Prometheus, version 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats/). It is implemented here
// because the client library of Prometheus would link protobuf, which nothing else needs.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// kind is the type of a metric.
type kind string

const (
	counter kind = "counter"
	gauge   kind = "gauge"
)

// family is one metric: its description and a function that reads it.
type family struct {
	name, help string
	labels     []string
	read       func(emit emitter, s state)
}

// emitter receives a value with the values of the family's labels.
type emitter func(k kind, value float64, labels ...string)

// state is a snapshot of everything that the metrics show.
type state struct {
	*Registry
	report *status.Report
	now    time.Time
}

// Handler serves the metrics as text.
func (r *Registry) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(r.text()) // an error means that the client is gone
	})
}

// WriteFile writes the metrics to a file in the text format, atomically.
func (r *Registry) WriteFile(name string) error {
	err := files.Replace(name, 0o644, func(w io.Writer) error {
		_, err := w.Write(r.text())
		return err
	})
	if err != nil {
		return fmt.Errorf("metrics file: %w", err)
	}
	return nil
}

// read returns the current state.
func (r *Registry) read() state {
	s := state{Registry: r, now: time.Now()}
	if r.report != nil {
		rep := r.report()
		s.report = &rep
	}
	return s
}

// text returns all metrics in the text format.
func (r *Registry) text() []byte {
	s := r.read()
	r.mu.Lock()
	defer r.mu.Unlock()
	var out bytes.Buffer
	for _, f := range slices.Concat(families(), processFamilies()) {
		described := false
		f.read(func(k kind, value float64, labels ...string) {
			if !described {
				describe(&out, f, string(k))
				described = true
			}
			series(&out, f.name, f.labels, labels, value)
		}, s)
	}
	for _, h := range histograms() {
		describe(&out, h.family, "histogram")
		l, sum := h.latency(r.sum), int64(0)
		for i, bound := range Bounds {
			sum += max(l.Buckets[i], 0)
			series(&out, h.name+"_bucket", []string{"le"}, []string{number(bound)}, float64(sum))
		}
		series(&out, h.name+"_bucket", []string{"le"}, []string{"+Inf"}, float64(max(l.Count, 0)))
		series(&out, h.name+"_sum", nil, nil, l.Seconds)
		series(&out, h.name+"_count", nil, nil, float64(max(l.Count, 0)))
	}
	return out.Bytes()
}

func describe(out *bytes.Buffer, f family, kind string) {
	fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, kind)
}

var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// series writes one line.
func series(out *bytes.Buffer, name string, labels, values []string, value float64) {
	out.WriteString(name)
	for i, label := range labels {
		separator := ","
		if i == 0 {
			separator = "{"
		}
		out.WriteString(separator + label + `="` + escaped.Replace(strings.ToValidUTF8(values[i], "\uFFFD")) + `"`)
	}
	if len(labels) > 0 {
		out.WriteByte('}')
	}
	out.WriteString(" " + number(value) + "\n")
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func counts(emit emitter, m map[string]int64) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		emit(counter, float64(m[k]), k)
	}
}
