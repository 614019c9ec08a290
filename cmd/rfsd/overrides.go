package main

import (
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/rfs/metadata"
)

// checkOverrides reads the wishes about every index that is created.
func (o *options) checkOverrides(c *cli.Context) error {
	w := metadata.Overrides{Aliases: metadata.AliasTime(c.String("aliases")), Without: c.StringSlice("without-rule")}
	if s := c.String("replicas"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			return usage("invalid --replicas %q: want a number, 0 or more", s)
		}
		if n < 0 {
			return usage("invalid --replicas %d: want 0 or more", n)
		}
		w.Replicas = &n
	}
	for _, s := range c.StringSlice("shards") {
		r, err := metadata.ParseShardRule(s)
		if err != nil {
			return usage("--shards: %w", err)
		}
		w.Shards = append(w.Shards, r)
	}
	for _, s := range c.StringSlice("index-rename") {
		r, err := metadata.ParseRenameRule(s)
		if err != nil {
			return usage("--index-rename: %w", err)
		}
		w.Rename = append(w.Rename, r)
	}
	o.overrides, o.globals.Without = w, w.Without
	return w.Check()
}
