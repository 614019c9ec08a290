package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
)

//go:embed lucene/Columns.java
var columnsSource []byte

// columnRounds is the number of times each column is read by Lucene and by rfsd; the best round is used.
const columnRounds = 12

// columnResult is the cost of reading a column.
type columnResult struct {
	Name       string  `json:"name"`
	Values     int64   `json:"values"`
	Sum        int64   `json:"sum"`
	CPUSeconds float64 `json:"cpu_seconds"` // of Lucene
	Own        float64 `json:"own_cpu_seconds"`
}

// readColumns writes an index with a column of every kind with Lucene, reads it with Lucene and with rfsd, and writes a table. Both must
// read the same values.
func readColumns(ctx context.Context, o options, w io.Writer) error {
	classes, err := compileReader(ctx, filepath.Join(o.cache, "bench", "lucene-"+columnsLucene), columnsLucene, "Columns.java", columnsSource)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rfsd-bench-columns-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	progress("writing and reading %d documents with Lucene %s", o.columns, columnsLucene)
	out, err := exec.CommandContext(ctx, java(os.Getenv("JAVA_HOME"), "java"), "-Xmx1g", "-cp", classes, "Columns", dir, strconv.Itoa(o.columns), strconv.Itoa(columnRounds)).Output()
	if err != nil {
		return fmt.Errorf("reading columns with Lucene: %w", withStderr(err))
	}
	var all []columnResult
	if err := json.Unmarshal(out, &all); err != nil {
		return fmt.Errorf("reading columns with Lucene: %w", err)
	}
	progress("reading with rfsd")
	for i := range all {
		if err := all[i].measure(ctx, dir, int32(i), o.columns); err != nil {
			return fmt.Errorf("column %s: %w", all[i].Name, err)
		}
	}
	if o.json {
		return json.NewEncoder(w).Encode(all)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "column\tvalues\tLucene, ns a value\trfsd, ns a value\trfsd ÷ Lucene\t")
	for _, c := range all {
		fmt.Fprintf(t, "%s\t%d\t%.1f\t%.1f\t%.1f\t\n", c.Name, c.Values, c.CPUSeconds/float64(c.Values)*1e9, c.Own/float64(c.Values)*1e9, c.Own/c.CPUSeconds)
	}
	return t.Flush()
}

// columnsFile is the .dvd file.
type columnsFile struct{ *os.File }

func (f columnsFile) Size() int64 {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

func (f columnsFile) ReadAt(_ context.Context, off, n int64) ([]byte, error) {
	p := make([]byte, n)
	_, err := f.File.ReadAt(p, off)
	return p, err
}

// measure reads a column, the field with a number, and compares it with Lucene's result.
func (c *columnResult) measure(ctx context.Context, dir string, field int32, documents int) error {
	const suffix = "Lucene90_0"
	names, err := filepath.Glob(filepath.Join(dir, "*_"+suffix+".dvm"))
	if err != nil || len(names) != 1 {
		return fmt.Errorf("%d files of columns: %w", len(names), err)
	}
	meta, err := os.ReadFile(names[0])
	if err != nil {
		return err
	}
	entries, err := columns.ParseMeta(meta, "", suffix, func(int32) (columns.Field, bool) { return columns.Field{}, true })
	if err != nil {
		return err
	}
	f, err := os.Open(names[0][:len(names[0])-1] + "d")
	if err != nil {
		return err
	}
	defer f.Close()
	for range columnRounds {
		begin := cpuTime()
		values, sum, err := readColumn(ctx, entries[field], columnsFile{f}, int32(documents))
		if err != nil {
			return err
		}
		if seconds := (cpuTime() - begin).Seconds(); c.Own == 0 || seconds < c.Own {
			c.Own = seconds
		}
		if values != c.Values || sum != c.Sum {
			return fmt.Errorf("%d values with the sum %d, Lucene finds %d with %d", values, sum, c.Values, c.Sum)
		}
	}
	return nil
}

// readColumn returns the number of values of a column, and their sum as computed by Columns.java.
func readColumn(ctx context.Context, e *columns.Entry, data columns.Data, documents int32) (values, sum int64, err error) {
	if e == nil {
		return 0, 0, errors.New("there is no such field")
	}
	r, err := e.NewReader(data, documents)
	if err != nil {
		return 0, 0, err
	}
	bytes := e.Kind != columns.Numeric && e.Kind != columns.SortedNumeric
	for doc := range documents {
		n, err := r.Advance(ctx, doc)
		if err != nil {
			return 0, 0, err
		}
		for i := range n {
			if !bytes {
				v, err := r.Number(ctx, i)
				if err != nil {
					return 0, 0, err
				}
				sum += v
				continue
			}
			b, err := r.Bytes(ctx, i)
			if err != nil {
				return 0, 0, err
			}
			sum += int64(len(b))*31 + int64(int8(b[len(b)-1]))
		}
		values += int64(n)
	}
	return values, sum, nil
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
