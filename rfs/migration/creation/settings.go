package creation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// ChangeSettings sets on target indices of an index the values of settings that the source has changed since a former snapshot (plan.Follows),
// as the target takes them. A setting that has another value on the target than the former one stays. It returns a text for each setting that stays.
func (t *Indices) ChangeSettings(ctx context.Context, x plan.Index, former *snapshot.Index, targets []string) (left []string, err error) {
	now, err := t.settingsOf(ctx, x)
	if err != nil {
		return nil, err
	}
	x.Source = former
	was, err := t.settingsOf(ctx, x)
	if err != nil {
		return nil, err
	}
	for _, name := range targets {
		is, err := t.present(ctx, name)
		if err != nil {
			return left, fmt.Errorf("settings of index %s: %w", name, err)
		}
		set := map[string]*string{}
		for _, key := range slices.Sorted(maps.Keys(union(was[name], now[name]))) {
			a, b := was[name][key], now[name][key]
			switch {
			case a == b || is[key] == b:
			case is[key] != a:
				left = append(left, fmt.Sprintf("%s settings.%s: the source has changed it from %q to %q, the target has %q", name, key, a, b, is[key]))
			case b == "":
				set[key] = nil
			default:
				set[key] = &b
			}
		}
		if len(set) == 0 {
			continue
		}
		body, err := json.Marshal(set)
		if err != nil {
			return left, fmt.Errorf("settings of index %s: %w", name, err)
		}
		err = rest.Call(ctx, t.Requester, http.MethodPut, "/"+url.PathEscape(name)+"/_settings", nil, body, nil)
		switch {
		case errors.Is(err, fault.ErrRejected), errors.Is(err, fault.ErrConfig):
			left = append(left, fmt.Sprintf("%s settings: the target does not take %s, which the source has changed: %s", name, strings.Join(slices.Sorted(maps.Keys(set)), ", "), fault.Text(err)))
		case err != nil:
			return left, fmt.Errorf("settings of index %s: %w", name, err)
		default:
			t.Log.InfoContext(ctx, "settings that the source has changed are changed on the target", "index", name, "settings", slices.Sorted(maps.Keys(set)))
		}
	}
	for _, text := range left {
		t.Log.WarnContext(ctx, "a setting that the source has changed stays as it is on the target", "setting", text)
	}
	return left, nil
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, b)
	return all
}

// settingsOf returns the settings that follow the source, as the target indices of an index of the snapshot get them.
func (t *Indices) settingsOf(ctx context.Context, x plan.Index) (map[string]map[string]string, error) {
	wanted, err := t.Wanted(ctx, x)
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]string{}
	for _, w := range wanted {
		done, err := metadata.ConvertIndex(t.Version, w)
		if err != nil {
			return nil, fmt.Errorf("index %s: %w", w.Name, err)
		}
		var body struct {
			Settings map[string]any `json:"settings"`
		}
		if err := json.Unmarshal(done.Body, &body); err != nil {
			return nil, fmt.Errorf("index %s: %w: %w", w.Name, err, fault.ErrCorrupt)
		}
		all[w.Name] = following(body.Settings)
	}
	return all, nil
}

// following returns the settings that follow the source, by their full names.
func following(settings map[string]any) map[string]string {
	all := metadata.IndexSettings(settings)
	maps.DeleteFunc(all, func(key, _ string) bool { return !plan.Follows(key) })
	return all
}

// present returns the explicit settings of a target index that follow the source.
func (t *Indices) present(ctx context.Context, name string) (map[string]string, error) {
	var answer map[string]struct {
		Settings map[string]any `json:"settings"`
	}
	if err := rest.Get(ctx, t.Requester, "/"+url.PathEscape(name)+"/_settings", url.Values{"flat_settings": {"true"}}, &answer); err != nil {
		return nil, err
	}
	return following(answer[name].Settings), nil
}
