package metadata

import "github.com/rfsd/rfsd/rfs/destination/target"

// Rules returns all rules, for tests of the package from outside.
func Rules() []Rule { return registry }

// Convert is ConvertIndex with all aliases in the body.
func Convert(v target.Version, w Wanted) (body []byte, changes []Change, err error) {
	w.Overrides.Aliases = AliasesEarly
	done, err := ConvertIndex(v, w)
	return done.Body, done.Changes, err
}
