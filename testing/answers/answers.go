// Package answers sends searches of every field of an index to clusters, to compare the answers of a source with the answers of the
// target of a migration.
package answers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/testing/rest"
)

// Search is a search and a cluster's answer: sorted ids, and aggregations with sorted keys and numbers rounded to 12 digits (sums
// depend on the order of documents).
type Search struct {
	Index        string          `json:"index"`
	Body         json.RawMessage `json:"body"`
	IDs          []string        `json:"ids"`
	Aggregations json.RawMessage `json:"aggregations,omitempty"`
}

// most is the maximum number of searches in a request.
const most = 200

// Ask returns the searches with the answers of a cluster, or an error if the cluster refuses a search.
func Ask(ctx context.Context, c rest.Client, all []Search) ([]Search, error) {
	answered, refused, err := ask(ctx, c, all)
	if err == nil && len(refused) > 0 {
		err = fmt.Errorf("%d searches are refused: %w", len(refused), errors.Join(refused...))
	}
	return answered, err
}

// ask returns the answered searches, and the errors of the others.
func ask(ctx context.Context, c rest.Client, all []Search) (answered []Search, refused []error, err error) {
	for part := range slices.Chunk(all, most) {
		var body bytes.Buffer
		for _, s := range part {
			fmt.Fprintf(&body, "{\"index\":%q}\n%s\n", s.Index, s.Body)
		}
		raw, err := c.Send(ctx, http.MethodPost, "/_msearch", "application/x-ndjson", body.Bytes())
		if err != nil {
			return nil, nil, err
		}
		var answer struct {
			Responses []struct {
				Error json.RawMessage
				Hits  struct {
					Hits []struct {
						ID string `json:"_id"`
					}
				}
				Aggregations json.RawMessage
			}
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			return nil, nil, err
		}
		if len(answer.Responses) != len(part) {
			return nil, nil, fmt.Errorf("%d answers to %d searches", len(answer.Responses), len(part))
		}
		for i, r := range answer.Responses {
			s := Search{Index: part[i].Index, Body: part[i].Body, IDs: []string{}}
			if r.Error != nil {
				refused = append(refused, fmt.Errorf("%s %s: %s", s.Index, s.Body, r.Error))
				continue
			}
			for _, h := range r.Hits.Hits {
				s.IDs = append(s.IDs, h.ID)
			}
			slices.Sort(s.IDs)
			if s.Aggregations, err = normalized(r.Aggregations); err != nil {
				return nil, nil, err
			}
			answered = append(answered, s)
		}
	}
	return answered, refused, nil
}

func normalized(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(rounded(v))
}

func rounded(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil || !strings.ContainsAny(v.String(), ".eE") {
			return v
		}
		if f == 0 { // -0 is 0
			return json.Number("0")
		}
		return json.Number(strconv.FormatFloat(f, 'e', 11, 64))
	case []any:
		for i := range v {
			v[i] = rounded(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = rounded(v[k])
		}
	}
	return v
}

// Differ returns the differences between the answers of target and source, one line each.
func Differ(source, target []Search) (faults []string) {
	if len(source) != len(target) {
		return []string{fmt.Sprintf("%d answers, want %d", len(target), len(source))}
	}
	for i, want := range source {
		got := target[i]
		if !slices.Equal(got.IDs, want.IDs) {
			faults = append(faults, fmt.Sprintf("%s %s finds %v, want %v", want.Index, want.Body, got.IDs, want.IDs))
		}
		if !bytes.Equal(got.Aggregations, want.Aggregations) {
			faults = append(faults, fmt.Sprintf("%s %s: aggregations %s, want %s", want.Index, want.Body, got.Aggregations, want.Aggregations))
		}
	}
	return faults
}

// Load reads the answers of a file that Save wrote.
func Load(file string) (all []Search, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return all, nil
}

// Save writes answers, one line each.
func Save(file string, all []Search) error {
	var b bytes.Buffer
	for i, s := range all {
		line, err := json.Marshal(s)
		if err != nil {
			return err
		}
		b.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		b.Write(line)
	}
	b.WriteString("\n]\n")
	return os.WriteFile(file, b.Bytes(), 0o644)
}
