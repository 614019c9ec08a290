// Command snapgen makes the project's fixtures: snapshots of real clusters, with the clusters' own account of every document.
// `make fixtures` regenerates testing/fixtures; see DESIGN.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/rfsd/rfsd/testing/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "snapgen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("snapgen", flag.ContinueOnError)
	out := fs.String("out", filepath.Join("testing", "fixtures"), "directory that takes the fixtures")
	list := fs.Bool("list", false, "list the recipes and stop")
	fs.Usage = func() {
		fmt.Fprintln(fs.Output(), "usage: snapgen [-out DIR] [RECIPE...]   (default: all but those marked on demand)")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err != nil {
		return err
	}
	all := recipes()
	if *list {
		for _, r := range all {
			fmt.Println(r)
		}
		return nil
	}
	chosen, err := choose(all, fs.Args())
	if err != nil {
		return err
	}
	var missing []string
	for _, r := range chosen {
		fmt.Fprintln(os.Stderr, "snapgen:", r.name)
		err := makeFixture(ctx, r, *out)
		if errors.Is(err, cluster.ErrMissing) {
			missing = append(missing, fmt.Sprintf("%s: %v", r.name, err))
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("not made:\n%s", strings.Join(missing, "\n"))
	}
	return nil
}

// recipe makes one fixture.
type recipe struct {
	name     string
	holds    string // its content, for -list
	onDemand bool   // made only if named
	make     func(context.Context, *lab) error
}

func (r recipe) String() string {
	s := fmt.Sprintf("%-24s %s", r.name, r.holds)
	if r.onDemand {
		s += " (on demand)"
	}
	return s
}

// recipes returns all recipes, sorted by name.
func recipes() []recipe {
	all := slices.Concat(basicRecipes(), historyRecipes(), sourceRecipes(), stateRecipes(), upgradeRecipes(), storageRecipes(), remoteRecipes(), demoRecipes(), rebuildRecipes(), innerRecipes(), typeRecipes(), vectorRecipes(), switchedOffRecipes(), oldRecipes())
	slices.SortFunc(all, func(a, b recipe) int { return strings.Compare(a.name, b.name) })
	return all
}

// choose returns the recipes with the given names; without names, all that are not on demand.
func choose(all []recipe, names []string) ([]recipe, error) {
	var chosen []recipe
	for _, r := range all {
		if slices.Contains(names, r.name) || (len(names) == 0 && !r.onDemand) {
			chosen = append(chosen, r)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(r recipe) bool { return r.name == name }) {
			return nil, fmt.Errorf("no such recipe: %s (-list lists them)", name)
		}
	}
	return chosen, nil
}

// makeFixture runs a recipe in its own lab, and keeps the fixture only if the recipe succeeds.
func makeFixture(ctx context.Context, r recipe, out string) (err error) {
	l, err := newLab(r.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	if err := r.make(ctx, l); err != nil {
		return err
	}
	return l.keep(out)
}
