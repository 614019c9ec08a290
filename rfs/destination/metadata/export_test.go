package metadata

// Rules returns all rules, for tests of the package from outside.
func Rules() []Rule { return registry }
