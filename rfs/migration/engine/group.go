package engine

// Bounds of items that a slot works on at the same time.
const (
	GroupItems = 8
	GroupBytes = 2 << 20 // in the repository
)
