package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/preflight"
	"github.com/rfsd/rfsd/rfs/migration/worker"
)

// Patterns are names, patterns such as logs-*, and regex:PATTERN.
type Patterns struct {
	pattern.List
	Texts []string // as they were given
}

func (p *Patterns) parseAll(texts []string) (err error) {
	p.Texts = texts
	p.List, err = pattern.ParseList(texts)
	return err
}

// Selection returns the names that one list has and the other has not.
func (p Patterns) Selection(without Patterns) pattern.Selection {
	return pattern.Selection{Include: p.List, Exclude: without.List}
}

// Match returns the function that selects names; nil for a list that was not given, which is all.
func (p Patterns) Match() func(string) bool {
	if len(p.Texts) == 0 {
		return nil
	}
	return pattern.Selection{Include: p.List}.Match
}

// Hosts are addresses of one cluster, separated by commas.
type Hosts string

func (h *Hosts) parseAll(texts []string) error {
	*h = Hosts(strings.Join(texts, ","))
	return nil
}

// Proxy is the address of a proxy, or none.
type Proxy string

func (p *Proxy) parse(text string) error {
	*p = Proxy(text)
	_, err := target.ProxyOf(text)
	return err
}

// Priorities are PATTERN=N.
type Priorities []string

func (p *Priorities) parseAll(texts []string) error {
	*p = texts
	_, err := worker.IndexPriority(nil, texts)
	return err
}

// ShardRules are PATTERN=NUMBER.
type ShardRules []metadata.ShardRule

func (r *ShardRules) parseAll(texts []string) error {
	*r = nil
	for _, text := range texts {
		one, err := metadata.ParseShardRule(text)
		if err != nil {
			return err
		}
		*r = append(*r, one)
	}
	return nil
}

// RenameRules are PATTERN=NAME.
type RenameRules []metadata.RenameRule

func (r *RenameRules) parseAll(texts []string) error {
	*r = nil
	for _, text := range texts {
		one, err := metadata.ParseRenameRule(text)
		if err != nil {
			return err
		}
		*r = append(*r, one)
	}
	return nil
}

// RuleNames are conversion rules.
type RuleNames []string

func (r *RuleNames) parseAll(texts []string) error {
	*r = texts
	return metadata.Overrides{Without: texts}.Check()
}

// Objects selects the parts of the cluster's state to migrate in addition to templates.
type Objects struct{ Pipelines, Scripts, Policies, Attachments, Managed bool }

func (o *Objects) parseAll(texts []string) error {
	for _, text := range texts {
		for name := range strings.SplitSeq(text, ",") {
			switch strings.TrimSpace(name) {
			case "pipelines":
				o.Pipelines = true
			case "scripts":
				o.Scripts = true
			case "policies", "ilm":
				o.Policies = true
			case "attachments": // of policies, which they need
				o.Policies, o.Attachments = true, true
			case "managed":
				o.Managed = true
			default:
				return errSyntax
			}
		}
	}
	return nil
}

// Pairs are KEY=VALUE.
type Pairs map[string]string

func (p *Pairs) parseAll(texts []string) error {
	*p = Pairs{}
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return errSyntax
		}
		(*p)[key] = value
	}
	return nil
}

// ItemStates are states of work items as they are listed.
type ItemStates []string

var itemStates = []string{"open", "leased", "expired", "done", "handed off", "failed"}

func (s *ItemStates) parseAll(texts []string) error {
	*s = nil
	for _, text := range texts {
		text = strings.ReplaceAll(strings.ToLower(text), "-", " ")
		if !slices.Contains(itemStates, text) {
			return errSyntax
		}
		*s = append(*s, text)
	}
	return nil
}

// Phases are phases of a migration, separated by commas.
type Phases phase.Phases

func (p *Phases) parse(text string) error {
	all, err := phase.ParsePhases(text)
	*p = Phases(all)
	return err
}

// Sections are sections of a plan, separated by commas.
type Sections preflight.Sections

func (s *Sections) parse(text string) error {
	*s = nil
	for name := range strings.SplitSeq(text, ",") {
		x := preflight.Section(strings.TrimSpace(name))
		if !preflight.AllSections().Has(x) {
			return errSyntax
		}
		*s = append(*s, x)
	}
	return nil
}

// Compression is the compression of exported files.
type Compression export.Compression

func (c *Compression) parse(text string) error {
	*c = Compression(text)
	return export.Compression(text).Check()
}

// Replicas is a number of replicas; nil keeps the source's.
type Replicas struct{ Number *int }

func (r *Replicas) parse(text string) error {
	if text == "" {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return errSyntax
	}
	r.Number = &n
	return nil
}

// Rate is a number of bytes per second with its unit: 20MiB, 0.5MB; 0: no limit.
type Rate int64

func (r *Rate) parse(text string) error {
	var s Size
	err := s.parse(text)
	*r = Rate(s)
	return err
}

// Limit is a number, or math.MaxInt64 for unlimited.
type Limit int64

func (l *Limit) parse(text string) error {
	*l = math.MaxInt64
	if text == "unlimited" {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return errSyntax
	}
	*l = Limit(n)
	return nil
}

// Workers is a number of workers; 0: as many as the machine and the target bear; -1: none.
type Workers int

func (w *Workers) parse(text string) error {
	*w = 0
	switch text {
	case "auto":
		return nil
	case "none":
		*w = -1
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxWorkers {
		return errSyntax
	}
	*w = Workers(n)
	return nil
}

const maxWorkers = 256

// Size is a number of bytes with its unit: 512MB (10^6), 1GiB (2^30), 1.5GB; 0: none.
type Size int64

func (s *Size) parse(text string) error {
	text = strings.TrimSpace(text)
	if number := strings.Trim(text, "0123456789."); number == "" && text != "0" {
		return errSyntax // megabytes to some, bytes to others
	}
	n, err := humanize.ParseBytes(text)
	if err != nil || n > 1<<50 || strings.Contains(text, ",") { // a comma is a decimal point to some, and left out by the library
		return errSyntax
	}
	*s = Size(n)
	return nil
}

// Part is the part N of Of equal parts; N is 0 for none.
type Part struct{ N, Of uint64 }

func (p *Part) parse(text string) error {
	n, of, _ := strings.Cut(text, "/")
	first, err1 := strconv.ParseUint(n, 10, 31)
	second, err2 := strconv.ParseUint(of, 10, 31)
	if err1 != nil || err2 != nil || second == 0 || first > second {
		return errSyntax
	}
	*p = Part{first, second}
	return nil
}

func (p Part) String() string { return fmt.Sprintf("%d/%d", p.N, p.Of) }

// Share is a part of a whole: 1% or 0.01.
type Share float64

func (p *Share) parse(text string) error {
	number, percent := strings.CutSuffix(text, "%")
	part, err := strconv.ParseFloat(number, 64)
	if percent {
		part /= 100
	}
	if err != nil || !(part > 0 && part <= 1) {
		return errSyntax
	}
	*p = Share(part)
	return nil
}
