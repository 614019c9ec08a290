package metadata

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/pattern"
)

// AliasTime selects when the aliases of an index are set.
type AliasTime string

// The times. AliasesAuto sets write aliases and aliases with a filter when the documents are complete, and
// the others with the index.
const (
	AliasesAuto  AliasTime = ""
	AliasesEarly AliasTime = "early" // all with the index
	AliasesLate  AliasTime = "late"  // all when the documents of the index are complete
	AliasesNone  AliasTime = "none"  // never: a trial run
)

// Overrides are the user's overrides for every index; the zero value changes nothing.
type Overrides struct {
	Replicas *int        // instead of the source's; nil keeps them
	Shards   []ShardRule // the first match wins
	Rename   []RenameRule
	Aliases  AliasTime
	// Zones is the number of values of the target's awareness attribute if the target requires balanced
	// copies (objects.Zones). Replicas are raised to make copies a multiple of it. 0: no requirement.
	Zones int
	// Without names the rules that are not applied (RuleNames).
	Without []string
}

// ShardRule sets the number of shards of indices with a matching source name.
type ShardRule struct {
	Pattern pattern.Pattern
	Shards  int
}

// RenameRule renames indices. The first matching rule wins.
type RenameRule struct {
	Match pattern.Pattern
	To    string // may refer to groups of Match: $1, ${name}; each * and ? is a group
}

// Check returns a fault.ErrConfig error if an override is invalid.
func (o Overrides) Check() error {
	if o.Replicas != nil && *o.Replicas < 0 {
		return fmt.Errorf("%d replicas: %w", *o.Replicas, fault.ErrConfig)
	}
	for _, r := range o.Shards {
		if r.Shards < 1 || r.Shards > 1024 {
			return fmt.Errorf("shards %s=%d: want a number from 1 to 1024: %w", r.Pattern, r.Shards, fault.ErrConfig)
		}
	}
	switch o.Aliases {
	case AliasesAuto, AliasesEarly, AliasesLate, AliasesNone:
	default:
		return fmt.Errorf("aliases %q is neither early nor late: %w", o.Aliases, fault.ErrConfig)
	}
	return CheckRuleNames(o.Without)
}

// ParseShardRule parses PATTERN=NUMBER.
func ParseShardRule(s string) (ShardRule, error) {
	i := strings.LastIndexByte(s, '=')
	n, err := strconv.Atoi(s[i+1:])
	if i <= 0 || err != nil {
		return ShardRule{}, fmt.Errorf("invalid %q: want PATTERN=NUMBER, such as logs-*=3: %w", s, fault.ErrConfig)
	}
	p, err := pattern.Parse(s[:i])
	r := ShardRule{Pattern: p, Shards: n}
	if err != nil {
		return r, err
	}
	return r, Overrides{Shards: []ShardRule{r}}.Check()
}

// ParseRenameRule parses PATTERN=NAME, such as logs-*=old-$1 or regex:logs-(.*)=old-$1.
func ParseRenameRule(s string) (RenameRule, error) {
	i := strings.LastIndexByte(s, '=')
	if i <= 0 || i == len(s)-1 {
		return RenameRule{}, fmt.Errorf("invalid %q: want PATTERN=NAME, such as logs-*=old-$1 or regex:logs-(.*)=old-$1: %w", s, fault.ErrConfig)
	}
	p, err := pattern.Parse(s[:i])
	return RenameRule{Match: p, To: s[i+1:]}, err
}

// NewName returns the target name of an index of the source.
func (o Overrides) NewName(name string) string {
	for _, r := range o.Rename {
		if r.Match.Match(name) {
			return r.Match.Regexp().ReplaceAllString(name, r.To)
		}
	}
	return name
}

// Names returns the new name of each index. It returns fault.ErrConfig, with the names of both indices, if
// two get the same name, and an error if no target would accept a new name.
func (o Overrides) Names(indices []string) (map[string]string, error) {
	names, from := make(map[string]string, len(indices)), make(map[string]string, len(indices))
	for _, old := range indices {
		name := o.NewName(old)
		if before, taken := from[name]; taken && before != old {
			return nil, fmt.Errorf("indices %s and %s would both be named %s: %w", before, old, name, fault.ErrConfig)
		}
		if why := RefusedName(name); why != "" && name != old {
			return nil, fmt.Errorf("index %s renamed to %q: %s: %w", old, name, why, fault.ErrConfig)
		}
		names[old], from[name] = name, old
	}
	return names, nil
}

// RefusedName returns the reason why OpenSearch rejects the name of an index; "" if it accepts it.
func RefusedName(name string) string {
	switch {
	case name == "" || name == "." || name == "..":
		return "an index needs a name"
	case len(name) > 255:
		return "it has more than 255 bytes"
	case strings.ToLower(name) != name:
		return "it must be lower case"
	case strings.ContainsAny(name[:1], "_-+"):
		return "it must not start with _, - or +"
	case strings.ContainsAny(name, "\\/*?\"<>| ,#:"):
		return "it must not contain \\ / * ? \" < > | , # : or a blank"
	}
	return ""
}

// override applies the overrides to the settings of one index.
func (e *edit) override(o Overrides, source string, settings map[string]any) {
	for _, r := range o.Shards {
		if !r.Pattern.Match(source) {
			continue
		}
		if was := settings["index.number_of_shards"]; was != strconv.Itoa(r.Shards) {
			what := "%d instead of %v, by the rule for %s"
			if n, err := strconv.Atoi(fmt.Sprint(was)); err == nil && r.Shards < n {
				what += "; documents of one id with several routings may meet on one shard, which holds one of them (id_collision)"
			}
			e.note("override", "index.number_of_shards", what, r.Shards, was, r.Pattern)
			settings["index.number_of_shards"] = strconv.Itoa(r.Shards)
			// It must be a multiple of the number of shards, which has changed.
			delete(settings, "index.number_of_routing_shards")
		}
		break
	}
	if o.Replicas != nil {
		if was := settings["index.number_of_replicas"]; was != strconv.Itoa(*o.Replicas) {
			e.note("override", "index.number_of_replicas", "%d instead of %v, as asked", *o.Replicas, was)
		}
		if auto, ok := settings["index.auto_expand_replicas"]; ok && auto != "false" {
			e.note("override", "index.auto_expand_replicas", "dropped %v: it would override the number of replicas", auto)
		}
		delete(settings, "index.auto_expand_replicas")
		settings["index.number_of_replicas"] = strconv.Itoa(*o.Replicas)
	}
	if o.Zones > 1 {
		e.balance(o.Zones, settings)
	}
}

// balance raises the number of replicas so that all zones have the same number of copies.
func (e *edit) balance(zones int, settings map[string]any) {
	up := func(replicas int) int { return (replicas+zones)/zones*zones - 1 }
	if low, high, ok := strings.Cut(Text(settings["index.auto_expand_replicas"]), "-"); ok {
		n, err := strconv.Atoi(high)
		if err != nil || up(n) == n { // "all", or already balanced
			return
		}
		e.note("awareness", "index.auto_expand_replicas", "up to %d instead of %d: copies are a multiple of %d zones", up(n), n, zones)
		settings["index.auto_expand_replicas"] = low + "-" + strconv.Itoa(up(n))
		return
	}
	n, ok := number(settings["index.number_of_replicas"])
	if !ok {
		n = 1
	}
	if up(n) != n || !ok {
		e.note("awareness", "index.number_of_replicas", "%d instead of %d: copies are a multiple of %d zones", up(n), n, zones)
		settings["index.number_of_replicas"] = strconv.Itoa(up(n))
	}
}
