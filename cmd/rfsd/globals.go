package main

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/rfs/pattern"
	"github.com/rfsd/rfsd/rfs/worker"
)

// checkGlobals reads which templates, pipelines, scripts and policies take part.
func (o *options) checkGlobals(c *cli.Context) error {
	for flag, by := range map[string]*func(string) bool{
		"template-allowlist": &o.globals.Templates, "component-template-allowlist": &o.globals.ComponentTemplates,
		"index-template-allowlist": &o.globals.IndexTemplates,
	} {
		if !c.IsSet(flag) {
			continue
		}
		list, err := pattern.ParseList(c.StringSlice(flag))
		if err != nil {
			return usage("--%s: %w", flag, err)
		}
		*by = pattern.Selection{Include: list}.Match
	}
	for _, list := range c.StringSlice("include") {
		for name := range strings.SplitSeq(list, ",") {
			switch strings.TrimSpace(name) {
			case "pipelines":
				o.globals.Pipelines = true
			case "scripts":
				o.globals.Scripts = true
			case "policies", "ilm":
				o.globals.Policies = true
			case "managed":
				o.globals.Managed = true
			default:
				return usage("--include %q is not pipelines, scripts, policies or managed", name)
			}
		}
	}
	return nil
}

// editor gives the rules about the documents of an index, nil when there are none.
func (o options) editor(index string) worker.DocumentEditor {
	if e := o.rules.Documents(index); e != nil {
		return e
	}
	return nil
}
