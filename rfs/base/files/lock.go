package files

import "errors"

// Locking selects how Lock locks a file.
type Locking int

// Lock modes.
const (
	TryExclusive Locking = iota // exclusive, without waiting
	TryShared                   // shared, without waiting
	Exclusive                   // exclusive; blocks until the file is unlocked
	Shared                      // shared; blocks while another open file has an exclusive lock
)

// ErrLocked is the error of a lock that another open file has.
var ErrLocked = errors.New("another process has the lock")
