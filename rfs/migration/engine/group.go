package engine

// Limits of a group of small items, on which a slot works at the same time.
const (
	GroupItems = 8
	GroupBytes = 2 << 20 // size in the repository
)
