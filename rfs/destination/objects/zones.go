package objects

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

// Zones returns the largest number of values of a forced awareness attribute if the target requires balanced copies
// (cluster.routing.allocation.awareness.balance), else 0.
func Zones(ctx context.Context, c rest.API) (int, error) {
	var levels struct{ Defaults, Persistent, Transient map[string]any }
	err := rest.Get(ctx, c, "/_cluster/settings", url.Values{"include_defaults": {"true"}, "flat_settings": {"true"}}, &levels)
	if errors.Is(err, target.ErrNotAnswered) {
		return 0, nil // the target does not show zones
	}
	if err != nil {
		return 0, fmt.Errorf("awareness of the target: %w", err)
	}
	get := func(key string) any {
		for _, m := range []map[string]any{levels.Transient, levels.Persistent, levels.Defaults} {
			if v, ok := m[key]; ok {
				return v
			}
		}
		return nil
	}
	const prefix = "cluster.routing.allocation.awareness."
	if fmt.Sprint(get(prefix+"balance")) != "true" {
		return 0, nil
	}
	zones := 0
	for _, attribute := range words(get(prefix + "attributes")) {
		zones = max(zones, len(words(get(prefix+"force."+attribute+".values"))))
	}
	return zones, nil
}

// words returns the elements of a list in JSON or separated by commas.
func words(v any) []string {
	var all []string
	switch v := v.(type) {
	case string:
		for _, w := range strings.Split(v, ",") {
			if w = strings.TrimSpace(w); w != "" {
				all = append(all, w)
			}
		}
	case []any:
		for _, w := range v {
			all = append(all, fmt.Sprint(w))
		}
	}
	return all
}
