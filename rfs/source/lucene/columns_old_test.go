package lucene

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// columnOf returns what testdata/columns/Write.java stores for document n in a column.
func columnOf(name string, n int) []string {
	number := func(v int64) []string { return []string{strconv.FormatInt(v, 10)} }
	text := func(n, length int) []string {
		b := make([]byte, length)
		for i := range b {
			b[i] = byte(n + i)
		}
		return []string{string(b)}
	}
	var out []string
	switch name {
	case "delta":
		return number(int64(300 + n/8%1000))
	case "table":
		return number([]int64{1, 1 << 40, -5, 77, 1234567, -9999999999, 3}[n%7])
	case "day":
		if n%13 != 0 {
			return number(86400000*int64(n/10%3000) - 86400000)
		}
	case "wide":
		switch {
		case n%100 == 0:
			return number(-1<<63 + int64(n))
		case n%50 == 0:
			return number(1<<63 - 1 - int64(n))
		}
	case "rare":
		if n%997 == 3 {
			return number(int64(-n))
		}
	case "one":
		return number(7)
	case "fix":
		return text(n/100, 2)
	case "bin":
		if n%3 == 0 {
			return text(n/50, n%7)
		}
	case "term":
		if n%11 != 0 {
			term := fmt.Sprintf("term%d", n/16%700)
			if n%5 != 0 {
				term += "ü"
			}
			return []string{term}
		}
	case "code":
		return []string{fmt.Sprintf("c%d", n/1000%10)}
	case "tags":
		for k := range n % 4 {
			out = append(out, fmt.Sprintf("tag%d", (n/100+k*k)%300))
		}
		slices.Sort(out)
	case "single":
		if n%2 == 0 {
			return []string{fmt.Sprintf("s%d", n/64%100)}
		}
	case "many":
		for k := n%3 - 1; k >= 0; k-- {
			out = append(out, strconv.Itoa(n/100-k))
		}
	case "few":
		return number(int64(n / 1000))
	}
	return out
}

// TestColumnsOfLucene4 compares every value of every column with what was given to the Lucene that wrote it.
func TestColumnsOfLucene4(t *testing.T) {
	names := []string{"delta", "table", "day", "wide", "rare", "one", "fix", "bin", "term", "code", "tags", "single"}
	for version, columns := range map[string][]string{
		"4.5.1-disk": names, "4.8.1-disk": names, "4.5.1": names, "4.6.1": names, "4.8.1": names, "4.9.1": append(slices.Clone(names), "many", "few"),
	} {
		t.Run(version, func(t *testing.T) {
			c, err := Open(t.Context(), zipDir(t, filepath.Join("testdata", "columns", version+".zip")), Options{})
			if err != nil {
				t.Fatal(err)
			}
			s := c.Segments[0]
			fi := fieldsOf(t, s)
			for _, name := range columns {
				if f := fi.named(name); f == nil || f.docValues == 0 {
					t.Fatalf("column %s does not exist", name)
				}
				got, err := columnValues(t.Context(), s, fi, name)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if len(got) != 20000 {
					t.Fatalf("%d documents", len(got))
				}
				for n := range got {
					if want := columnOf(name, n); !slices.Equal(got[n], want) {
						t.Fatalf("%s of document %d: %q, want %q", name, n, got[n], want)
					}
				}
			}
		})
	}
}
