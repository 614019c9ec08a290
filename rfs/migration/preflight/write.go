package preflight

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
)

const (
	writeCheck  = "may index documents"
	writeRemedy = "give the user indices:data/write/bulk* and indices:data/write/index on these indices"
	// impossibleSeqNo is the sequence number of no document, so the target rejects the action with 409 after it has checked the permissions.
	impossibleSeqNo = 1 << 62
	maxThrowaway    = 8 // throw-away indices of one run
	maxShownNames   = 5
)

// mayWrite verifies the permission to index documents under the target's index names, without writing any. For an existing index it sends
// an action with an impossible sequence number. For other names it sends a request to index into a missing index, which fails after the
// permission check, and an action to a throw-away index whose name starts alike.
func mayWrite(ctx context.Context, c rest.API, n Needs) []Finding {
	names := slices.Sorted(maps.Keys(distinct(n.Names)))
	if len(names) == 0 {
		return []Finding{{writeCheck, Skipped, "no index is going to be written", ""}}
	}
	there, unknown := existing(ctx, c, names)
	w := writeProbe{results: map[string][]string{}}
	w.try(ctx, c, slices.Sorted(maps.Keys(there)), nil)
	var absent, unseen []string
	for _, name := range names {
		switch {
		case unknown[name] != "":
			unseen = append(unseen, name)
		case !there[name]:
			absent = append(absent, name)
		}
	}
	alike := beginnings(unseen)
	for i, key := range slices.Sorted(maps.Keys(alike)) {
		words := ""
		if i < maxThrowaway {
			words = refusedIndexing(ctx, c, alike[key][0])
		}
		if words != "" {
			w.add("forbidden", fault.Names(alike[key], maxShownNames), words)
			continue
		}
		for _, name := range alike[key] {
			w.add("unknown", name, unknown[name])
		}
	}
	var all []Finding
	alike = beginnings(absent)
	keys := slices.Sorted(maps.Keys(alike))
	for _, key := range keys[:min(len(keys), maxThrowaway)] {
		if words := refusedIndexing(ctx, c, alike[key][0]); words != "" {
			w.add("forbidden", fault.Names(alike[key], maxShownNames), words)
			continue
		}
		all = append(all, w.throwaway(ctx, c, alike[key])...)
	}
	for _, key := range keys[min(len(keys), maxThrowaway):] {
		w.add("unknown", fault.Names(alike[key], maxShownNames), fmt.Sprintf("at most %d throw-away indices are made", maxThrowaway))
	}
	return append(w.findings(), all...)
}

// distinct returns the valid index names, each once.
func distinct(names []string) map[string]bool {
	all := map[string]bool{}
	for _, name := range names {
		if metadata.RefusedName(name) == "" {
			all[name] = true
		}
	}
	return all
}

// beginnings groups names by the text before their first separator or digit, since permissions rarely distinguish more.
func beginnings(names []string) map[string][]string {
	all := map[string][]string{}
	for _, name := range names {
		key := name
		if i := strings.IndexAny(name[1:], "-_.0123456789"); i >= 0 {
			key = name[:i+1]
		}
		all[key] = append(all[key], name)
	}
	return all
}

// existing returns the names that exist on the target as indices or aliases, and the names that could not be looked up, with the reasons.
func existing(ctx context.Context, c rest.API, names []string) (there map[string]bool, unknown map[string]string) {
	there, unknown = map[string]bool{}, map[string]string{}
	wanted := slices.Clone(names)
	note := func(name string) {
		if _, ok := slices.BinarySearch(wanted, name); ok {
			there[name] = true
		}
	}
	for some, path := range rest.InParts(names) {
		var found map[string]struct {
			Aliases map[string]any `json:"aliases"`
		}
		q := url.Values{"ignore_unavailable": {"true"}, "allow_no_indices": {"true"}, "filter_path": {"*.aliases"}}
		if f := ask(ctx, c, writeCheck, path, q, &found); f != nil {
			for _, name := range some {
				unknown[name] = f.Detail
			}
			continue
		}
		for index, x := range found {
			note(index)
			for alias := range x.Aliases {
				note(alias)
			}
		}
	}
	return there, unknown
}

// writeProbe collects the outcomes of the probes.
type writeProbe struct {
	proved, thrown []string
	results        map[string][]string // forbidden, full, blocked or unknown: names; under the name with ":" the target's words
	remedy         string              // of full
}

// refused records names whose documents or index the target refused: as full where its disks are the reason, else as kind.
func (w *writeProbe) refused(kind, name, why, remedy string) {
	if remedy != "" {
		kind, w.remedy = "full", remedy
	}
	w.add(kind, name, why)
}

func (w *writeProbe) add(kind, name, why string) {
	w.results[kind] = append(w.results[kind], name)
	if w.results[kind+":"] == nil {
		w.results[kind+":"] = []string{why}
	}
}

// try sends one action to each of indices; as holds the names to report the outcomes under, nil for the indices themselves.
func (w *writeProbe) try(ctx context.Context, c rest.API, indices, as []string) {
	for len(indices) > 0 {
		some := indices[:min(len(indices), 500)]
		indices = indices[len(some):]
		w.tryBulk(ctx, c, some, as)
	}
}

func (w *writeProbe) tryBulk(ctx context.Context, c rest.API, indices, as []string) {
	names := as
	if names == nil {
		names = indices
	}
	var body strings.Builder
	for _, index := range indices {
		action, err := json.Marshal(map[string]any{"index": map[string]any{
			"_index": index, "_id": nothing, "routing": nothing, "if_seq_no": int64(impossibleSeqNo), "if_primary_term": 1,
		}})
		if err != nil { // impossible: a map of strings and numbers
			continue
		}
		body.Write(action)
		body.WriteString("\n{}\n")
	}
	status, raw, err := c.Do(ctx, http.MethodPost, "/_bulk", url.Values{"pipeline": {"_none"}}, []byte(body.String()))
	var answer struct {
		Items []map[string]struct {
			Status int `json:"status"`
			Error  struct{ Type, Reason string }
		} `json:"items"`
	}
	if err == nil && status < 300 {
		err = json.Unmarshal(raw, &answer)
	}
	if err != nil || status >= 300 || len(answer.Items) != len(indices) {
		kind := "unknown"
		words, _ := explained("POST /_bulk", status, raw)
		if err != nil {
			words = fault.Text(err)
		} else if status == http.StatusForbidden || status == http.StatusUnauthorized {
			kind = "forbidden"
		}
		for _, name := range names {
			w.add(kind, name, words)
		}
		return
	}
	for i, item := range answer.Items {
		x, name := item["index"], names[min(i, len(names)-1)]
		text, remedy := fault.Explain(x.Status, x.Error.Type, x.Error.Reason)
		words := fmt.Sprintf("status %d: %.300s", x.Status, text)
		switch {
		case x.Status == http.StatusConflict && as == nil:
			w.proved = append(w.proved, name)
		case x.Status == http.StatusConflict:
			w.thrown = append(w.thrown, names...)
		case strings.Contains(x.Error.Type, "block"):
			w.refused("blocked", name, words, remedy)
		case x.Status == http.StatusForbidden:
			w.add("forbidden", name, words)
		default:
			w.add("unknown", name, words)
		}
	}
}

// refusedIndexing returns the target's reason if the user may not index documents under a name, which need not exist; "" otherwise. A
// permitted request fails for other reasons: the name is not an alias, and no document has the sequence number.
func refusedIndexing(ctx context.Context, c rest.API, name string) string {
	path := "/" + url.PathEscape(name) + "/_doc/" + nothing
	q := url.Values{"require_alias": {"true"}, "if_seq_no": {strconv.FormatInt(impossibleSeqNo, 10)}, "if_primary_term": {"1"}, "routing": {nothing}, "pipeline": {"_none"}}
	status, answer, err := c.Do(ctx, http.MethodPut, path, q, []byte("{}"))
	kind, _ := fault.ErrorMessage(answer)
	if err != nil || status != http.StatusForbidden && status != http.StatusUnauthorized || strings.Contains(kind, "block") {
		return ""
	}
	words, _ := explained("PUT "+path, status, answer)
	return words
}

// throwaway creates an index whose name starts like names, probes it, and deletes it. If the user has no permission to delete it, it is not
// created.
func (w *writeProbe) throwaway(ctx context.Context, c rest.API, names []string) []Finding {
	index := names[0][:min(len(names[0]), 200)] + "-rfsd-doctor-" + strings.ToLower(rand.Text()[:10])
	path := "/" + url.PathEscape(index)
	words := func(status int, answer []byte, err error) string {
		if err != nil {
			return fault.Text(err)
		}
		text, _ := explained(index, status, answer)
		return text
	}
	status, answer, err := c.Do(ctx, http.MethodDelete, path, nil, nil)
	if err != nil || status != http.StatusNotFound {
		w.add("unknown", fault.Names(names, maxShownNames), "a throw-away index could not be removed again: DELETE "+words(status, answer, err))
		return nil
	}
	status, answer, err = c.Do(ctx, http.MethodPut, path, nil, []byte(`{"settings":{"index.number_of_shards":1,"index.number_of_replicas":0}}`))
	if err == nil && status >= 300 {
		remedy := ""
		if kind, reason := fault.ErrorMessage(answer); strings.Contains(kind, "block") {
			_, remedy = fault.Explain(status, kind, reason)
		}
		w.refused("unknown", fault.Names(names, maxShownNames), "no throw-away index: PUT "+words(status, answer, err), remedy)
		return nil
	}
	switch {
	case err != nil:
		w.add("unknown", fault.Names(names, maxShownNames), "no throw-away index: PUT "+words(status, answer, err))
	case refusedIndexing(ctx, c, index) != "": // the permissions name the indices exactly, not by prefix
		w.add("unknown", fault.Names(names, maxShownNames), "the user may index single documents; bulk requests could not be tested, since a throw-away index may not be written")
	default:
		w.try(ctx, c, []string{index}, []string{fault.Names(names, maxShownNames)})
	}
	// Delete it even if the request to create it got no response.
	status, answer, derr := c.Do(context.WithoutCancel(ctx), http.MethodDelete, path, nil, nil)
	if derr == nil && (status < 300 || status == http.StatusNotFound && err != nil) {
		return nil
	}
	return []Finding{{"throw-away index", Warning, "it could not be removed: DELETE " + words(status, answer, derr), "remove the index " + index + " by hand"}}
}

// findings returns one finding for each outcome.
func (w *writeProbe) findings() []Finding {
	var all []Finding
	if len(w.proved) > 0 {
		all = append(all, Finding{writeCheck, Good, "proved in " + fault.Names(w.proved, maxShownNames), ""})
	}
	if len(w.thrown) > 0 {
		all = append(all, Finding{writeCheck, Good, "proved by a throw-away index for " + fault.Names(w.thrown, maxShownNames), ""})
	}
	for _, kind := range []struct {
		name   string
		level  Level
		remedy string
	}{
		{"forbidden", Bad, writeRemedy},
		{"full", Bad, w.remedy},
		{"blocked", Bad, "remove the block of the index: PUT INDEX/_settings {\"index.blocks.write\":null,\"index.blocks.read_only\":null}"},
		{"unknown", Skipped, "make sure that the user has indices:data/write/bulk* and indices:data/write/index there: the migration would stop at its first documents"},
	} {
		if names := w.results[kind.name]; len(names) > 0 {
			all = append(all, Finding{writeCheck, kind.level, fault.Names(names, maxShownNames) + ": " + cmp.Or(w.results[kind.name+":"][0], "no answer"), kind.remedy})
		}
	}
	return all
}
