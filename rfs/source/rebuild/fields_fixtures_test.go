package rebuild_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/rebuild"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/truth"
)

// TestFieldsHoldWhatWasSent rebuilds documents from stored fields and doc values alone and compares every field with the
// truth, by the state that was told before: exact fields hold the values in their order, those in normal form the same set
// of values, lost ones nothing.
func TestFieldsHoldWhatWasSent(t *testing.T) {
	for _, c := range []struct {
		dir, name string
		indices   []string
		values    int      // compared, of fields that are not lost
		left      []string // documents and fields whose values stay left out
		text      bool     // out of terms, too
	}{
		{"testdata", "8.19.21-rebuild", []string{"types", "types-arrays"}, 756, nil, false},
		{"testdata", "9.5.3-rebuild", []string{"types", "types-arrays"}, 756, nil, false},
		{"testdata", "8.19.21-types", []string{"modules"}, 78, malformed, false},
		{"testdata", "2.4.6-switched-off", switchedOff, 258, inArrays, false},
		{"testdata", "6.8.23-switched-off", switchedOff, 325, inArrays, false},
		{"testdata", "7.10.2-switched-off", switchedOff, 346, inArrays, false},
		{"testdata", "8.19.21-rebuild", []string{"types", "types-arrays"}, 788, nil, true},
		{"testdata", "9.5.3-rebuild", []string{"types", "types-arrays"}, 788, nil, true},
		{"testdata", "2.4.6-switched-off", switchedOff, 276, inArrays, true},
		{"testdata", "6.8.23-switched-off", switchedOff, 343, inArrays, true},
		{"testdata", "7.10.2-switched-off", switchedOff, 364, inArrays, true},
		{fixtures, "os3.8.0-switched-off", switchedOff, 376, inArrays, false},
		{fixtures, "os3.8.0-switched-off", switchedOff, 394, inArrays, true},
	} {
		t.Run(fmt.Sprintf("%s, text %v", c.name, c.text), func(t *testing.T) {
			account := filepath.Join(c.dir, c.name+".sent.ndjson.gz")
			if _, err := os.Stat(account); err != nil { // the account of the cluster is what was sent
				account = filepath.Join(c.dir, c.name+".ndjson.gz")
			}
			want, err := truth.Load(false, account)
			if err != nil {
				t.Fatal(err)
			}
			sent := map[string]json.RawMessage{}
			for k, source := range want {
				sent[k.Index+"/"+k.ID] = source
			}
			values := 0
			for _, x := range indicesOf(t, filepath.Join(c.dir, c.name), c.indices) {
				mapping := x.Source.Mappings[0].Body
				states, err := rebuild.StatesFields(mapping, x.Entry.Locator.Created, c.text)
				if err != nil {
					t.Fatal(err)
				}
				for id, got := range fromFields(t, filepath.Join(c.dir, c.name), x, c.text) {
					was, ok := sent[x.Name+"/"+id]
					if !ok {
						t.Fatalf("%s/%s is not a document of the truth", x.Name, id)
					}
					for _, f := range states {
						if slices.Contains(c.left, x.Name+"/"+id+" "+f.Field) {
							continue
						}
						n, fault := compareField(f, fieldOf(t, mapping, f.Field), was, got)
						if fault != "" {
							t.Errorf("%s/%s: %s (%s, %s): %s", x.Name, id, f.Field, f.Type, f.State, fault)
						}
						values += n
					}
				}
			}
			if values != c.values {
				t.Errorf("%d values were compared, want %d", values, c.values)
			}
		})
	}
}

// switchedOff are the indices of the snapshots whose truth is what was sent, inArrays what is not completed there: a field
// of objects in an array, or a value that its type did not take.
var (
	switchedOff = []string{"filtered", "nested", "objects", "types"}
	inArrays    = []string{"filtered/2 list.hidden"}
	malformed   = []string{"modules/15 metric", "modules/16 metric", "modules/18 metric", "modules/22 histogram", "modules/23 histogram"}
)

func indicesOf(t *testing.T, dir string, names []string) (all []plan.Index) {
	t.Helper()
	r, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := plan.New(t.Context(), r, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range plan.Indices {
		if slices.Contains(names, x.Name) {
			all = append(all, x)
		}
	}
	if len(all) != len(names) {
		t.Fatalf("the snapshot has not all of %v", names)
	}
	return all
}

// fromFields rebuilds or completes every document of an index, by id, whatever is kept for recoveries.
func fromFields(t *testing.T, dir string, x plan.Index, text bool) map[string]json.RawMessage {
	t.Helper()
	r, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, all := t.Context(), map[string]json.RawMessage{}
	for n := range x.Entry.Shards {
		shard, err := snapshotShard(ctx, r, x, n)
		if err != nil {
			t.Fatal(err)
		}
		commit, err := lucene.Open(ctx, shard, lucene.Options{Values: true})
		if err != nil {
			t.Fatal(err)
		}
		b, err := rebuild.NewFields(x.Source.Mappings[0].Body, x.Entry.Locator.Created, text)
		if err != nil {
			t.Fatal(err)
		}
		reader := commit.Reader(lucene.ReadOptions{To: commit.MaxOrdinal, Values: true, NestedTerms: x.Entry.Locator.NestedTerms()})
		decoder := doc.NewDecoder(x.Name, n)
		for {
			rec, err := reader.Next(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			source, err := oneFromFields(ctx, b, rec)
			if err != nil {
				t.Fatalf("%s, ordinal %d: %v", x.Name, rec.Ordinal, err)
			}
			rec.Source, rec.HasSource, rec.HasRecovery = []byte("{}"), true, false
			d, failure := decoder.Decode(rec)
			if failure != nil {
				t.Fatal(failure.Detail)
			}
			all[string(d.ID)] = source
		}
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func oneFromFields(ctx context.Context, b *rebuild.Rebuilder, rec *lucene.Record) ([]byte, error) {
	if b.Completes() {
		source, _, err := b.Complete(ctx, nil, rec.Source, rec.Values)
		return source, err
	}
	return b.Append(ctx, nil, rec.Values)
}

// parameters are those of a field that decide what its values are.
type parameters struct {
	Type        string                `json:"type"`
	Format      string                `json:"format"`
	IgnoreAbove int                   `json:"ignore_above"`
	Normalizer  string                `json:"normalizer"`
	NullValue   any                   `json:"null_value"`
	Scaling     float64               `json:"scaling_factor"`
	Fields      map[string]parameters `json:"fields"`
	Properties  map[string]parameters `json:"properties"`
}

// fieldOf returns the parameters of a field of a mapping, with those of the keyword below it that holds its text.
func fieldOf(t *testing.T, mapping json.RawMessage, path string) parameters {
	t.Helper()
	var p parameters
	if err := json.Unmarshal(mapping, &p); err != nil {
		t.Fatal(err)
	}
	for path != "" {
		found := false
		for name, child := range p.Properties {
			if path == name || strings.HasPrefix(path, name+".") {
				p, path, found = child, strings.TrimPrefix(strings.TrimPrefix(path, name), "."), true
				break
			}
		}
		if !found {
			t.Fatalf("no field %s", path)
		}
	}
	return p
}

// compareField compares the values of one field; n is how many there are.
func compareField(f rebuild.FieldState, p parameters, sent, got json.RawMessage) (n int, fault string) {
	if strings.Contains(f.Note, "copy_to") {
		return 0, ""
	}
	above := p.IgnoreAbove
	if from, ok := strings.CutPrefix(f.Note, "from "+f.Field+"."); ok {
		name, _, _ := strings.Cut(from, ";")
		above = p.Fields[name].IgnoreAbove
	}
	want := canonical(p, above, leaves(sent, f.Field))
	have := canonical(p, above, leaves(got, f.Field))
	if f.State == rebuild.Lost {
		if len(leaves(got, f.Field)) > 0 {
			return 0, fmt.Sprintf("a lost field has values: %s", have)
		}
		return 0, ""
	}
	if f.State == rebuild.Approximate {
		want, have = analyzedAs(want), analyzedAs(have)
	}
	if f.State == rebuild.Normal {
		slices.Sort(want)
		slices.Sort(have)
		want, have = slices.Compact(want), slices.Compact(have)
	}
	if !slices.Equal(want, have) {
		return 0, fmt.Sprintf("rebuilt %q, want %q", have, want)
	}
	return len(want), ""
}

// analyzedAs returns what the standard analyzer leaves of texts, whatever values they belong to: words in lower case.
func analyzedAs(texts []string) []string {
	return strings.FieldsFunc(strings.ToLower(strings.Join(texts, " ")), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// leaves returns the values at a path, through objects and arrays of them; keys may have dots.
func leaves(b json.RawMessage, path string) (all []json.RawMessage) {
	b = bytes.TrimSpace(b)
	if len(b) > 0 && b[0] == '[' && path != "" {
		var list []json.RawMessage
		if json.Unmarshal(b, &list) == nil {
			for _, v := range list {
				all = append(all, leaves(v, path)...)
			}
		}
		return all
	}
	if path == "" {
		return []json.RawMessage{b}
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(b, &object) != nil {
		return nil
	}
	for name, v := range object {
		if name == path {
			all = append(all, leaves(v, "")...)
		} else if rest, ok := strings.CutPrefix(path, name+"."); ok {
			all = append(all, leaves(v, rest)...)
		}
	}
	return all
}

// canonical returns the values of a field as a field of the type understands them, in the order in which they were sent;
// those that it leaves out are left out.
func canonical(p parameters, above int, raw []json.RawMessage) (all []string) {
	for _, r := range raw {
		var v any
		d := json.NewDecoder(bytes.NewReader(r))
		d.UseNumber()
		if d.Decode(&v) != nil {
			continue
		}
		list, isList := v.([]any)
		point := p.Type == "geo_point" && isList && len(list) == 2
		if point {
			_, point = list[0].(json.Number)
		}
		if !isList || point {
			list = []any{v}
		}
		for _, v := range list {
			if nested, ok := v.([]any); ok && p.Type != "geo_point" {
				b, err := json.Marshal(nested)
				if err == nil {
					all = append(all, canonical(p, above, []json.RawMessage{b})...)
				}
				continue
			}
			if v == nil && p.NullValue != nil {
				v = p.NullValue
			}
			if v == nil {
				continue
			}
			if s, ok := oneCanonical(p, v); ok && (above == 0 || len([]rune(s)) <= above) {
				all = append(all, s)
			}
		}
	}
	return all
}

func oneCanonical(p parameters, v any) (string, bool) {
	text := fmt.Sprint(v)
	number, err := strconv.ParseFloat(text, 64)
	switch p.Type {
	case "keyword", "string", "text", "wildcard":
		if p.Normalizer != "" {
			text = strings.ToLower(text)
		}
		return text, true
	case "long", "integer", "short", "byte":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			bits := map[string]int{"long": 64, "integer": 32, "short": 16, "byte": 8}[p.Type]
			return strconv.FormatInt(n, 10), n == n<<(64-bits)>>(64-bits)
		}
		return strconv.FormatInt(int64(number), 10), err == nil && math.Abs(number) < 1<<31
	case "unsigned_long":
		return text, true
	case "double":
		return strconv.FormatFloat(number, 'g', -1, 64), err == nil
	case "float":
		return strconv.FormatFloat(float64(float32(number)), 'g', -1, 32), err == nil
	case "half_float": // within the precision of 11 bits
		return fmt.Sprintf("%.2e", number), err == nil
	case "scaled_float":
		return fmt.Sprint(math.Round(number * p.Scaling)), err == nil
	case "boolean":
		return strconv.FormatBool(text == "true"), text == "true" || text == "false" || text == ""
	case "date", "date_nanos":
		return moment(p, text)
	case "ip":
		a, err := netip.ParseAddr(text)
		return a.Unmap().String(), err == nil
	case "binary":
		b, err := base64.StdEncoding.DecodeString(text)
		return string(b), err == nil
	case "geo_point":
		return point(v)
	case "integer_range", "long_range", "float_range", "double_range", "date_range", "ip_range":
		return extent(p, v)
	}
	b, err := json.Marshal(v)
	return string(b), err == nil
}

// moment returns a moment in nanoseconds.
func moment(p parameters, text string) (string, bool) {
	at := func(t time.Time) (string, bool) {
		if p.Type != "date_nanos" {
			t = t.Truncate(time.Millisecond)
		}
		return t.UTC().Format(time.RFC3339Nano), true
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil && !strings.HasPrefix(p.Format, "yyyy-MM-dd'") {
		if strings.HasPrefix(p.Format, "epoch_second") {
			n = math.Floor(n) * 1000 // the field takes whole seconds
		}
		whole, fraction := math.Modf(n)
		return at(time.UnixMilli(int64(whole)).Add(time.Duration(math.Round(fraction * 1e6))))
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02", "2006/01/02 15:04:05", "2006-01-02T15:04:05", "2006"} {
		if t, err := time.Parse(layout, text); err == nil {
			return at(t)
		}
	}
	return "", false
}

// point returns a point to five digits: the columns keep 32 bits of each coordinate.
func point(v any) (string, bool) {
	var lat, lon float64
	var err, err2 error
	switch v := v.(type) {
	case string:
		north, east, _ := strings.Cut(v, ",")
		lat, err = strconv.ParseFloat(strings.TrimSpace(north), 64)
		lon, err2 = strconv.ParseFloat(strings.TrimSpace(east), 64)
	case []any:
		lat, err = strconv.ParseFloat(fmt.Sprint(v[1]), 64)
		lon, err2 = strconv.ParseFloat(fmt.Sprint(v[0]), 64)
	case map[string]any:
		lat, err = strconv.ParseFloat(fmt.Sprint(v["lat"]), 64)
		lon, err2 = strconv.ParseFloat(fmt.Sprint(v["lon"]), 64)
	}
	return fmt.Sprintf("%.5f %.5f", lat+0, lon+0), err == nil && err2 == nil
}

// extent returns both ends of a range, included; none is a dash.
func extent(p parameters, v any) (string, bool) {
	if s, ok := v.(string); ok {
		prefix, err := netip.ParsePrefix(s)
		if err != nil {
			return "", false
		}
		last := prefix.Masked().Addr().AsSlice()
		for i := prefix.Bits(); i < len(last)*8; i++ {
			last[i/8] |= 0x80 >> (i % 8)
		}
		end, _ := netip.AddrFromSlice(last)
		return prefix.Masked().Addr().String() + " " + end.String(), true
	}
	object, ok := v.(map[string]any)
	if !ok {
		return "", false
	}
	end := func(open, closed string, step int64) string {
		v, isOpen := object[open]
		if !isOpen {
			v = object[closed]
		}
		if v == nil {
			return "-"
		}
		one := parameters{Type: strings.TrimSuffix(p.Type, "_range"), Format: p.Format}
		s, _ := oneCanonical(one, v)
		if !isOpen {
			return s
		}
		switch one.Type {
		case "integer", "long":
			n, _ := strconv.ParseInt(s, 10, 64)
			return strconv.FormatInt(n+step, 10)
		case "double":
			n, _ := strconv.ParseFloat(s, 64)
			return strconv.FormatFloat(math.Nextafter(n, math.Inf(int(step))), 'g', -1, 64)
		case "float":
			n, _ := strconv.ParseFloat(s, 32)
			return strconv.FormatFloat(float64(math.Nextafter32(float32(n), float32(math.Inf(int(step))))), 'g', -1, 32)
		case "date":
			t, _ := time.Parse(time.RFC3339Nano, s)
			return t.Add(time.Duration(step) * time.Millisecond).Format(time.RFC3339Nano)
		}
		return s
	}
	return end("gt", "gte", 1) + " " + end("lt", "lte", -1), true
}
